//! Frames without the current row or its peers: `EXCLUDE CURRENT ROW | GROUP | TIES`.
//!
//! A function over such a frame is computed by a window function of its own, which receives the
//! frame of each row in order, and the ORDER BY keys after its arguments: [`ExcludingAggregate`]
//! wraps an aggregate function, and [`ExcludingValue`] replaces `first_value`, `last_value` and
//! `nth_value`. Both need all rows of a partition at once.

mod aggregate;
mod rows;
mod value;

pub use aggregate::ExcludingAggregate;
pub use rows::Exclusion;
pub use value::{ExcludingValue, Pick};

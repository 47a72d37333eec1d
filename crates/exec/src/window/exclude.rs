//! Frames without the current row or its peers: `EXCLUDE CURRENT ROW | GROUP | TIES`.
//!
//! A function over such a frame is a window function of its own, which gets the frame of each row
//! in order, and the ORDER BY keys behind its arguments: [`ExcludingAggregate`] over an aggregate
//! function, and [`ExcludingValue`] in place of `first_value`, `last_value` and `nth_value`. It
//! needs all rows of a partition at once.

mod aggregate;
mod rows;
mod value;

pub use aggregate::ExcludingAggregate;
pub use rows::Exclusion;
pub use value::{ExcludingValue, Pick};

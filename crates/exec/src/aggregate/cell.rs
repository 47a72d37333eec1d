//! States of fixed size, kept in the row of their group.
//!
//! The operations match those of the `GroupsAccumulator`s (DataFusion's, or those of
//! [`crate::functions`]), so that results are the same to the last bit as long as rows come in the
//! same order. The state of DataFusion's own `sum` has the type of the result; here it returns an
//! error where DataFusion's would wrap around.

mod avg;
mod choose;
mod count;
mod flag;
mod fold;
mod interface;
mod sum;

pub(super) use choose::{choose, counts_rows};
pub(super) use interface::{Cell, Input, Room};

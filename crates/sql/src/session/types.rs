//! Types of columns, and the semantics of their values in queries.

mod intervals;
mod kinds;
mod literals;
mod map;
mod ordering;
mod planner;
mod rule;
mod values;

pub(super) use literals::write_out;
pub(super) use planner::ColumnTypes;
pub(super) use rule::TypedValues;
pub(super) use values::rewrite;

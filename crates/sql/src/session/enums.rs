//! Enum types.
//!
//! The catalog stores a type as the text of its CREATE TYPE. A column of the type stores the texts
//! of labels, and the metadata of its field names the type (`enum_type`), so that its rows can be
//! read without the type. Every write checks that the texts are labels. In a logical plan, the enum
//! of each expression is derived from the tables up (`kinds`), and values are ordered by the ranks
//! of their labels (`comparison`). The rank of a label is its position in the type, from zero.

mod comparison;
pub(super) mod enum_type;
pub(super) mod field;
mod functions;
mod kinds;
pub(super) mod listing;
pub(super) mod names;
pub(super) mod plan;
pub(super) mod planner;
pub(super) mod report;
pub(super) mod syntax;
pub(super) mod written;

//! Enum types.
//!
//! A type is stored as the text of its definition. A column of the type is a column of texts whose
//! field names the type (`enum_type`), so that its rows can be read without the type. Every write
//! checks that texts are labels. In a plan, the values that are of an enum are found from the
//! tables up (`kinds`), and ordered by the places of their labels (`comparison`).

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

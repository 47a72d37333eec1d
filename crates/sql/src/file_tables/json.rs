//! JSON files as tables: newline-delimited elements, or an array of them. The fields of objects are
//! columns; elements that are not all objects are the values of a single column.

mod elements;
mod files;
mod form;
mod reader;
mod shape;

pub(super) use elements::Layout;
pub(super) use files::{JsonOptions, plan};

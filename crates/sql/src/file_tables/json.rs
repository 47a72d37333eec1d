//! Files of JSON as tables: one element after the other, or an array of them. The fields of objects
//! are columns; elements that are not all objects are the values of one.

mod elements;
mod files;
mod form;
mod reader;
mod shape;

pub(super) use elements::Layout;
pub(super) use files::{JsonOptions, plan};

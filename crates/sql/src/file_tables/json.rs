//! Files of JSON as tables: one object after the other, or an array of objects.

mod elements;
mod files;
mod reader;
mod shape;

pub(super) use elements::Layout;
pub(super) use files::{JsonOptions, plan};

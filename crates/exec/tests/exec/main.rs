//! The paged operators against DataFusion's own, and the rows they are made of.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod rows;

//! The paged operators against DataFusion's own, and the rows they are made of.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod aggregate;
mod common;
mod hash_join;
mod loop_join;
mod repartition;
mod rows;
mod sort;
mod stored_batches;
mod window;

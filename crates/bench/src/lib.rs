//! Every experiment of Terrace, re-run: a table, JSON and a picture.
//!
//! [`tpch`] generates, loads, runs and checks TPC-H. The experiments compare two ways of doing the
//! same work in one process, alternated, and report medians and ratios.

#![forbid(unsafe_code)]

pub mod chart;
pub mod error;
pub mod experiment;
pub mod grid;
pub mod hash_index;
pub mod lines;
pub mod machine;
pub mod market;
pub mod meter;
pub mod paged_scan;
pub mod report;
pub mod statistic;
pub mod tiers;
pub mod timing;
pub mod tpch;
pub mod twin;

pub use error::{BenchError, Result};

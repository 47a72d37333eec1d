//! The experiments of Terrace, which can be repeated: each gives a table, JSON and a picture.
//!
//! [`suite`] generates, loads, runs and checks [`tpch`] and [`tpcds`]. The experiments compare
//! several ways to do the same work, alternate between them, and report medians and ratios.

#![forbid(unsafe_code)]

pub(crate) mod ab_run;
pub mod adaptive;
pub mod allocations;
pub mod chart;
pub mod clients;
pub mod dram_curve;
pub mod duckdb;
pub mod encodings;
pub mod error;
pub mod experiment;
pub mod grid;
pub mod hash_index;
pub mod lines;
pub mod machine;
pub mod market;
pub mod memory_table;
pub mod meter;
pub mod migration;
pub mod objects;
pub mod operators;
pub mod out_of_core;
pub mod paged_scan;
pub mod pages;
pub mod peer;
pub mod picture;
mod random;
pub mod region;
pub mod report;
pub mod scratch;
pub mod segments;
pub mod server;
pub mod statistic;
pub mod suite;
pub mod suspend;
pub mod tenants;
pub mod tiers;
pub mod timing;
pub mod tpcds;
pub mod tpch;

pub use error::{BenchError, Result};

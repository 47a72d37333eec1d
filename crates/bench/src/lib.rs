//! Every experiment of Terrace, re-run: a table, JSON and a picture.
//!
//! [`tpch`] and [`tpcds`] are generated, loaded, run and checked by [`suite`]. The experiments
//! compare ways of doing the same work, alternated, and report medians and ratios.

#![forbid(unsafe_code)]

pub mod adaptive;
pub mod allocations;
mod chance;
pub mod chart;
pub mod clients;
pub mod dram_curve;
pub mod duckdb;
pub(crate) mod duel;
pub mod encodings;
pub mod error;
pub mod experiment;
pub mod grid;
pub mod hash_index;
pub mod lines;
pub mod machine;
pub mod market;
pub mod meter;
pub mod migration;
pub mod objects;
pub mod operators;
pub mod out_of_core;
pub mod paged_scan;
pub mod pages;
pub mod peer;
pub mod picture;
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
pub mod twin;

pub use error::{BenchError, Result};

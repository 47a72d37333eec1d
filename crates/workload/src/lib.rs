//! Workloads over trees of the buffer pool, and what drives and measures them.
//!
//! The workloads are those that n-tier buffer pools are studied with (Leis et al., SIGMOD 2023, and
//! its n-tier successor):
//!
//! | module | workload |
//! |---|---|
//! | [`random_read`] | look-ups of random tuples, one by one or in batches |
//! | [`tpcc`] | TPC-C: nine tables in eleven trees, five transactions, a check of consistency |
//! | [`ycsb`] | the Yahoo! Cloud Serving Benchmark, A to F |
//!
//! [`driver`] runs one on threads and samples throughput, latencies and what the tiers do.

#![forbid(unsafe_code)]

pub mod driver;
pub mod histogram;
pub mod random;
pub mod random_read;
pub mod tpcc;
pub mod ycsb;
pub mod zipf;

mod error;
mod sessions;
mod table;

pub use error::{Hex, Result, WorkloadError};

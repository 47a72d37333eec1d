//! Workloads over trees of the buffer pool, and a driver that runs and measures them.
//!
//! The workloads are those of the literature on n-tier buffer pools (Leis et al., SIGMOD 2023, and
//! its n-tier successor):
//!
//! | module | workload |
//! |---|---|
//! | [`random_read`] | look-ups of random tuples, one by one or in batches |
//! | [`tpcc`] | TPC-C: nine tables in eleven trees, five transactions, a check of consistency |
//! | [`ycsb`] | the Yahoo! Cloud Serving Benchmark, A to F |
//!
//! With the feature `maps`, the module `maps` compares the small-object store with maps in memory.
//!
//! [`driver`] runs a workload on threads and samples throughput, latencies and the activity of the
//! tiers.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use std::time::Duration;
//!
//! use terrace_ledger::Ledger;
//! use terrace_pool::{Pool, PoolConfig};
//! use terrace_workload::driver::{Length, RunConfig, run};
//! use terrace_workload::random_read::{RandomRead, RandomReadConfig};
//!
//! # fn main() -> Result<(), terrace_workload::WorkloadError> {
//! let pool = Pool::new(PoolConfig::new("example", Ledger::new(64 << 20)))?;
//! let config = RandomReadConfig { tuples: 10_000, batch: 1, page_bytes: 4096, seed: 1 };
//! let tuples = RandomRead::load(&pool, config, |_| ())?;
//! let config = RunConfig {
//!     threads: 2,
//!     warm_up: Duration::ZERO,
//!     length: Length::Operations(1_000),
//!     interval: Duration::from_secs(1),
//! };
//! let report = run(&tuples, &pool, &config, &AtomicBool::new(false), &mut |_| ())?;
//! assert_eq!(report.total.count(), 1_000);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod driver;
#[cfg(feature = "maps")]
pub mod maps;
pub mod random;
pub mod random_read;
pub mod tpcc;
pub mod ycsb;
pub mod zipf;

mod error;
mod sessions;
mod table;

pub use error::{Hex, Result, WorkloadError};

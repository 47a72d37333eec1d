//! Configuration of an engine.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use terrace_governor::memory::ProcessMemory;
use terrace_pool::Placement;
use terrace_tier::TierSpec;

/// Configuration of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The budget: bytes of DRAM for table data, working memory and all other accounted memory.
    pub dram_bytes: u64,
    /// Slower memory tiers, fastest first, and at most one file or device for the store. Without
    /// one, the store is a file in the data directory.
    pub tiers: Vec<TierSpec>,
    /// The data directory. Without one, the database is temporary.
    pub data_dir: Option<PathBuf>,
    /// Default number of partitions of a query: the threads that work on it in parallel.
    pub threads: usize,
    /// Initial settings of every session: names and values as for SET.
    pub settings: Vec<(String, String)>,
    /// Placement of the pool's pages: framed or mapped.
    pub placement: Placement,
    /// Method of measuring the process's memory that the ledger does not account for, so that the
    /// engine can keep it within the budget as well.
    pub process_memory: ProcessMemory,
    /// Limit of the process's memory in bytes. If `process_memory` measures it and unaccounted
    /// memory takes it beyond the limit, the youngest query fails with an error.
    pub process_limit_bytes: Option<u64>,
}

impl EngineConfig {
    /// The configuration of a temporary database with as many threads as there are processors.
    #[must_use]
    pub fn new(dram_bytes: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            dram_bytes,
            tiers: vec![],
            data_dir: None,
            threads,
            settings: vec![],
            placement: Placement::default(),
            process_memory: ProcessMemory::default(),
            process_limit_bytes: None,
        }
    }
}

//! Configuration of a pool.

use std::sync::Arc;
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_store::Store;
use terrace_tier::MemoryTier;

use crate::placement::Placement;
use crate::policy::SampledScore;
use crate::residency::Residency;

/// Configuration of a pool.
#[derive(Debug)]
pub struct PoolConfig {
    /// The pool's name, in statistics and errors.
    pub name: String,
    /// The ledger of the DRAM budget, shared with the other consumers.
    pub ledger: Ledger,
    /// The memory tiers, fastest first; the first is DRAM, bounded by the ledger.
    pub memory: Vec<MemoryTier>,
    /// Store that holds the pages evicted from memory.
    pub store: Option<Arc<Store>>,
    /// Bytes of DRAM that the pool reserves when it is created and never returns to the ledger.
    pub floor_bytes: u64,
    /// Timeout of a caller that waits for a frame or a latch, at most a day; then it gets an error.
    pub patience: Duration,
    /// Bytes by which the pool may exceed its budget to break a deadlock. A caller that has found
    /// no frame for two seconds, or for half of `patience` if that is less, may be waiting for
    /// callers that wait as well; it gets a frame beyond the budget. The debt is repaid as soon as
    /// pages can be evicted.
    pub overdraft_bytes: u64,
    /// Number of loader threads, which serve fetches and readahead; 0 counts as 1.
    pub loaders: usize,
    /// Policy that decides which pages stay in which tier.
    pub residency: Arc<dyn Residency>,
    /// Placement of pages: in frames, or at one address for life.
    pub placement: Placement,
    /// Factor by which each memory tier may grow beyond its initial size, by
    /// [`crate::Pool::resize`] or by the ledger: addresses and tables are reserved for it. Less if
    /// there are not enough frame ids.
    pub growth: u64,
}

impl PoolConfig {
    /// Returns the configuration of a pool over the ledger's whole budget of DRAM, without a store
    /// and with the default policy.
    pub fn new(name: impl Into<String>, ledger: Ledger) -> Self {
        let capacity_bytes = ledger.budget();
        let dram = MemoryTier { name: "dram".into(), capacity_bytes, node: None, latency_ns: 0 };
        Self {
            name: name.into(),
            ledger,
            memory: vec![dram],
            store: None,
            floor_bytes: 0,
            patience: Duration::from_secs(30),
            overdraft_bytes: 0,
            loaders: 2,
            residency: Arc::new(SampledScore),
            placement: Placement::Framed,
            growth: 4,
        }
    }
}

//! The buffer pool: its handle and statistics.

use std::sync::Arc;

use terrace_store::Store;

use crate::config::PoolConfig;
use crate::core::Core;
use crate::error::PoolError;
use crate::evict::{Effort, reclaim};
use crate::load_queue::LoadQueue;
use crate::placement::Placement;
use crate::resize::resize;
use crate::stats::{PoolStats, SpaceStats, TierStats};
use crate::worker::Workers;
use crate::write_back::flush;

/// A buffer pool over memory tiers and a store. Clones share one pool.
///
/// The background threads end when the last clone is dropped, and with it the last
/// [`crate::Space`].
#[derive(Clone, Debug)]
pub struct Pool {
    core: Arc<Core>,
    workers: Arc<Workers>,
}

impl Pool {
    /// Creates a pool: reserves its address ranges, takes its floor from the ledger, starts its
    /// threads.
    ///
    /// # Errors
    /// [`PoolError::Config`] if the tiers are invalid or the ledger cannot grant the floor;
    /// [`PoolError::System`] if the kernel refuses address space or a thread.
    pub fn new(config: PoolConfig) -> Result<Self, PoolError> {
        let loaders = config.loaders.max(1);
        let core = Arc::new(Core::new(config)?);
        let workers = Workers::start(&core, loaders)?;
        Ok(Self { core, workers: Arc::new(workers) })
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Returns the queue of the loader threads.
    pub(crate) fn queue(&self) -> &LoadQueue {
        self.workers.queue()
    }

    /// Evicts clean pages until at least `bytes` went back to the ledger, or until no clean page is
    /// left to evict. Returns the bytes that went back. Does no I/O and stops at the pool's floor,
    /// so it may be called from within a poll.
    pub fn release_clean(&self, bytes: u64) -> u64 {
        reclaim(&self.core, 0, bytes, Effort::Clean)
    }

    /// Like [`Pool::release_clean`], but also writes dirty pages to the store if clean ones are not
    /// enough. For callers that may block on the store.
    pub fn release(&self, bytes: u64) -> u64 {
        reclaim(&self.core, 0, bytes, Effort::Write)
    }

    /// Writes every dirty page to the store and keeps it in memory. Returns the bytes written.
    /// Skips pages that are held by a writer or are being written. A page written this way can be
    /// evicted without I/O; it survives a crash once the store was synced.
    ///
    /// # Errors
    /// [`PoolError::Store`] if the store refused pages, which stay dirty; [`PoolError::NoStore`] if
    /// the pool has no store.
    pub fn flush(&self) -> Result<u64, PoolError> {
        flush(&self.core)
    }

    /// Changes the capacity of a memory tier while the pool is in use. Tier 0 is DRAM, whose
    /// capacity is the budget of the ledger that the pool shares with others. A tier that shrinks
    /// first evicts pages in small steps, and has its new size when this returns.
    ///
    /// # Errors
    /// [`PoolError::Config`] if there is no such tier, or if `bytes` is below the pool's floor or
    /// its longest page, or beyond what [`PoolConfig::growth`] reserved; [`PoolError::Resize`] if
    /// the tier did not get any smaller for the pool's timeout: it keeps the size reached so far.
    pub fn resize(&self, tier: usize, bytes: u64) -> Result<(), PoolError> {
        resize(&self.core, tier, bytes)
    }

    /// Returns the pool's counters.
    pub fn stats(&self) -> PoolStats {
        let (core, counters) = (&self.core, &self.core.counters);
        let tiers = core.tiers.iter().zip(&counters.tiers).map(|(tier, counters)| TierStats {
            name: tier.memory().name.clone(),
            capacity_bytes: tier.account().budget(),
            used_bytes: tier.account().used(),
            page_bytes: tier.page_bytes(),
            warm_bytes: tier.warm_bytes(),
            fixes: counters.fixes.get(),
            fixed_bytes: counters.fixed_bytes.get(),
            promoted: counters.promoted.get(),
            demoted: counters.demoted.get(),
            evicted: counters.evicted.get(),
        });
        PoolStats {
            name: core.name.clone(),
            tiers: tiers.collect(),
            hint_hits: counters.hint_hits.get(),
            look_ups: counters.look_ups.get(),
            loads: counters.loads.get(),
            loaded_bytes: counters.loaded_bytes.get(),
            write_backs: counters.write_backs.get(),
            written_bytes: counters.written_bytes.get(),
            write_failures: counters.write_failures.get(),
            waits: counters.waits.get(),
            owed_frames: counters.owed_frames.get(),
            move_failures: counters.move_failures.get(),
        }
    }

    /// Returns the bytes of DRAM, the first tier, that the pool holds. Cheap: reads one counter
    /// under a lock.
    pub fn dram_bytes(&self) -> u64 {
        self.core.tiers[0].account().used()
    }

    /// Returns the statistics of all live spaces, sorted by name.
    pub fn spaces(&self) -> Vec<SpaceStats> {
        self.core.spaces.stats()
    }

    /// Returns the store that holds the pages evicted from memory, if the pool has one.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.core.store.as_ref()
    }

    /// Returns the placement of the pool's pages.
    pub fn placement(&self) -> Placement {
        if self.core.addresses.is_mapped() { Placement::Mapped } else { Placement::Framed }
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        &self.core.name
    }
}

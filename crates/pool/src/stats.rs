//! Statistics of a pool.

use crate::counter::Counter;

/// Counters of one memory tier.
#[derive(Debug, Default)]
pub(crate) struct TierCounters {
    pub(crate) fixes: Counter,
    pub(crate) fixed_bytes: Counter,
    pub(crate) promoted: Counter,
    pub(crate) demoted: Counter,
    pub(crate) evicted: Counter,
}

/// Counters of a pool.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hint_hits: Counter,
    pub(crate) look_ups: Counter,
    pub(crate) loads: Counter,
    pub(crate) loaded_bytes: Counter,
    pub(crate) write_backs: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) write_failures: Counter,
    pub(crate) waits: Counter,
    pub(crate) owed_frames: Counter,
    pub(crate) move_failures: Counter,
    /// Counters of the memory tiers, fastest first.
    pub(crate) tiers: Vec<TierCounters>,
}

impl Counters {
    /// Creates the counters, all 0, of a pool with `count` memory tiers.
    pub(crate) fn of_tiers(count: usize) -> Self {
        let tiers = (0..count).map(|_| TierCounters::default()).collect();
        Self { tiers, ..Self::default() }
    }

    /// Counts fixes of a page of `len` bytes in a tier.
    #[inline]
    pub(crate) fn count_fixes(&self, tier: usize, fixes: u64, len: usize) {
        let counters = &self.tiers[tier];
        counters.fixes.add(fixes);
        counters.fixed_bytes.add(fixes * len as u64);
    }
}

/// Statistics of one memory tier.
#[derive(Clone, Debug)]
pub struct TierStats {
    /// The tier's name.
    pub name: String,
    /// Capacity in bytes: for DRAM, the ledger's budget.
    pub capacity_bytes: u64,
    /// Bytes charged to the tier: pages and warm frames.
    pub used_bytes: u64,
    /// Bytes of pages.
    pub page_bytes: u64,
    /// Bytes of frames without a page, kept for the next page of their class.
    pub warm_bytes: u64,
    /// Fixes and optimistic reads served from this tier; a thread counts its optimistic reads 64 at
    /// a time.
    pub fixes: u64,
    /// Bytes of the pages of those fixes.
    pub fixed_bytes: u64,
    /// Pages promoted into this tier.
    pub promoted: u64,
    /// Pages demoted into this tier.
    pub demoted: u64,
    /// Pages evicted from this tier that left memory; demoted pages are not among them.
    pub evicted: u64,
}

/// Statistics of a pool.
#[derive(Clone, Debug)]
pub struct PoolStats {
    /// The pool's name.
    pub name: String,
    /// The memory tiers, fastest first.
    pub tiers: Vec<TierStats>,
    /// Fixes and optimistic reads whose hint was right.
    pub hint_hits: u64,
    /// Fixes and optimistic reads that went through the page table.
    pub look_ups: u64,
    /// Pages read from the store.
    pub loads: u64,
    /// Bytes of the pages read from the store.
    pub loaded_bytes: u64,
    /// Pages written to the store.
    pub write_backs: u64,
    /// Bytes of the pages written to the store.
    pub written_bytes: u64,
    /// Writes that the store refused; the pages stay in memory.
    pub write_failures: u64,
    /// Waits of callers for a frame, of at most 2 ms each: a caller retries after each of them.
    pub waits: u64,
    /// Frames granted beyond the budget to callers whose wait for one had grown long.
    pub owed_frames: u64,
    /// Pages that the kernel failed to move to another node.
    pub move_failures: u64,
}

/// Statistics of a space.
#[derive(Clone, Debug)]
pub struct SpaceStats {
    /// The space's name.
    pub name: String,
    /// Bytes of the space's pages in memory.
    pub resident_bytes: u64,
    /// Bytes that the space may hold in memory before its pages are preferred as victims.
    pub grant_bytes: Option<u64>,
}

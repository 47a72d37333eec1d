//! The buffer pool as the reserve of queries.

use std::sync::Arc;

use terrace_governor::memory::Reserve;
use terrace_ledger::Consumer;
use terrace_pool::Pool;

/// The pool as the reserve of queries: the bytes it holds above its floor can be reclaimed.
#[derive(Debug)]
pub(super) struct PoolReserve {
    pub(super) pool: Pool,
    pub(super) floor_bytes: u64,
    /// Bytes of the pages that scans have copied for the operators above them. The pool cannot
    /// release these bytes, and no consumer waits for them.
    pub(super) copies: Arc<Consumer>,
}

impl PoolReserve {
    fn pool_bytes(&self) -> u64 {
        self.pool.dram_bytes().max(self.floor_bytes)
    }
}

impl Reserve for PoolReserve {
    fn release(&self, bytes: u64) -> u64 {
        self.pool.release_clean(bytes)
    }

    fn release_by_writing(&self, bytes: u64) -> u64 {
        self.pool.release(bytes)
    }

    fn releasable(&self) -> u64 {
        self.pool_bytes().saturating_sub(self.floor_bytes)
    }

    fn held(&self) -> u64 {
        self.pool_bytes().saturating_add(self.copies.held())
    }

    fn lent_frames(&self) -> u64 {
        self.pool.stats().owed_frames
    }
}

//! Pages that paged operators keep pinned, as a part of the budget.
//!
//! A pinned page belongs to the pool in the ledger, like every page, but the pool cannot give it
//! up. So pinned bytes are counted outside the ledger and subtracted from what the pool would give
//! up; the sum of grants stays within the budget and no byte is counted twice. Heap that the
//! operators hold, such as directories of hash tables, counts towards their grants too, and beyond
//! a small allowance it is also a consumer of the ledger, for which the pool makes room. The rules
//! of `fairness` apply to these operators as to DataFusion's operators that can spill, except that
//! they also release memory: if other operators wait for bytes, or more is pinned than the budget
//! has room for by now, each is told its part of it and unpins that much within a batch. The same
//! applies to a query that exceeds the market's limit.
//!
//! ```text
//!   operators of DataFusion                     paged operators
//!   MemoryReservation::try_grow                 Grant::try_grow
//!          |                                           |
//!          +--- may_grow: fairness, market's limit ----+
//!          |                                           |
//!   lease of the query                          MemoryBudget::try_pin
//!          |                                    pinned <= free + what the pool would give up
//!   Consumer::try_grow                                 |
//!          |                          pages: frames    |   heap beyond the allowance
//!          |                          of the pool, ----+---- Consumer, on debt the pool
//!          |                          a Consumer             gives up clean frames
//!          v                              v                      v
//!   +------------------------------ Ledger ------------------------------+
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use terrace_exec::{Grant, QueryMemory};
use terrace_pool::Space;

use super::operator::PinnedBytes;
use super::query_pool::QueryMemoryPool;
use crate::query::Suspension;
use crate::spill::SpillCounters;

/// Memory of the paged operators of one query.
#[derive(Debug)]
pub(crate) struct PagedMemory {
    pub memory: Arc<QueryMemoryPool>,
    pub space: Space,
    pub spilled: Arc<SpillCounters>,
    pub suspension: Arc<Suspension>,
}

impl QueryMemory for PagedMemory {
    fn space(&self) -> &Space {
        &self.space
    }

    fn register(&self, name: &str) -> Arc<dyn Grant> {
        let (spilled, suspension) = (Arc::clone(&self.spilled), Arc::clone(&self.suspension));
        Arc::new(PagedGrant::new(&self.memory, spilled, suspension, name))
    }

    fn paused(&self) -> Option<BoxFuture<'static, ()>> {
        self.suspension.pause()
    }
}

pub(super) struct PagedGrant {
    memory: Arc<QueryMemoryPool>,
    spilled: Arc<SpillCounters>,
    suspension: Arc<Suspension>,
    held: Arc<PinnedBytes>,
    /// The part of the held bytes that is heap, not pages.
    heap_bytes: AtomicU64,
}

impl PagedGrant {
    pub(super) fn new(
        memory: &Arc<QueryMemoryPool>,
        spilled: Arc<SpillCounters>,
        suspension: Arc<Suspension>,
        name: &str,
    ) -> Self {
        let held = Arc::new(PinnedBytes::new(name));
        memory.reservations().register_paged(&held);
        let heap_bytes = AtomicU64::new(0);
        Self { memory: Arc::clone(memory), spilled, suspension, held, heap_bytes }
    }
}

impl Grant for PagedGrant {
    fn try_grow(&self, bytes: u64) -> bool {
        let (memory, held) = (&self.memory, self.held.now());
        if !memory.may_grow(held, bytes, memory.budget.free_bytes()) {
            return false;
        }
        let pinned = memory.budget.try_pin(bytes);
        if pinned {
            self.held.add(bytes);
            memory.paged_bytes.fetch_add(bytes, Ordering::Relaxed);
            memory.limit.feed();
        } else if held.saturating_add(bytes) <= memory.budget.fairness().floor_bytes {
            memory.starve();
        }
        pinned
    }

    fn grow(&self, bytes: u64) {
        self.memory.budget.pin(bytes);
        self.memory.paged_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.held.add(bytes);
    }

    fn shrink(&self, bytes: u64) {
        self.held.remove(bytes);
        self.memory.paged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.budget.unpin(bytes);
    }

    fn hold_heap(&self, bytes: u64) {
        self.heap_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.memory.budget.hold_heap(bytes);
    }

    fn release_heap(&self, bytes: u64) {
        self.heap_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.budget.release_heap(bytes);
    }

    fn held_bytes(&self) -> u64 {
        self.held.now()
    }

    fn excess_bytes(&self) -> u64 {
        let held = self.held.now();
        self.memory.budget.excess_of(held).max(self.memory.excess_of(held))
    }

    fn suspended(&self) -> Option<BoxFuture<'static, ()>> {
        self.suspension.wait()
    }

    fn suspends(&self) -> BoxFuture<'static, ()> {
        self.suspension.begins()
    }

    fn count_spilled(&self, bytes: u64) {
        self.spilled.count_bytes(bytes);
        self.held.count_spilled(bytes);
    }
}

impl fmt::Debug for PagedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedGrant").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Drop for PagedGrant {
    fn drop(&mut self) {
        self.release_heap(self.heap_bytes.load(Ordering::Relaxed));
        self.shrink(self.held.now());
        self.memory.reservations().paged_ended(&self.held);
    }
}

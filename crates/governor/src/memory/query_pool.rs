//! Memory pool of one query, and the market's limit on it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_ledger::{Class, Consumer};
use terrace_sys::size::format_bytes;
use terrace_sys::sync::lock;

use super::budget::MemoryBudget;
use super::limit::{Limit, OPERATOR_FLOOR_BYTES, Starving};
use super::operator::{OperatorMemory, OperatorState};
use super::reservations::Reservations;

/// The memory of one query: the ledger as a memory pool for DataFusion's operators.
///
/// Dropping it releases everything.
pub struct QueryMemoryPool {
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) consumer: Consumer,
    cancelled: AtomicBool,
    reservations: Mutex<Reservations>,
    pub(super) limit: Limit,
    /// Bytes that its paged operators hold, in pages and on the heap.
    pub(super) paged_bytes: AtomicU64,
}

impl QueryMemoryPool {
    /// Registers a query with the ledger. `name` appears in errors and system tables.
    #[must_use]
    pub fn new(budget: &Arc<MemoryBudget>, name: impl Into<String>) -> Self {
        Self {
            consumer: budget.ledger.register(name, Class::Query),
            budget: Arc::clone(budget),
            cancelled: AtomicBool::new(false),
            reservations: Mutex::new(Reservations::default()),
            limit: Limit::default(),
            paged_bytes: AtomicU64::new(0),
        }
    }

    /// Returns the name of the query in the ledger.
    #[must_use]
    pub fn query(&self) -> &str {
        self.consumer.name()
    }

    /// Returns the bytes that the operators hold now.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reservations().reserved_bytes()
    }

    /// Returns the bytes of pages that its paged operators keep pinned now.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        self.reservations().pinned_bytes()
    }

    /// Returns the bytes that its operators hold now, in pages and otherwise.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.reserved_bytes().saturating_add(self.paged_bytes.load(Ordering::Relaxed))
    }

    /// Returns the maximum of the bytes that the operators held at one time.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.reservations().peak_bytes()
    }

    /// Returns the memory of each live operator, largest first.
    #[must_use]
    pub fn operators(&self) -> Vec<OperatorMemory> {
        self.reservations().operators()
    }

    /// Marks the query as ended: operators that wait for bytes get none.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn reservations(&self) -> MutexGuard<'_, Reservations> {
        lock(&self.reservations)
    }
}

impl QueryMemoryPool {
    /// Returns the bytes that the query may hold; `None` if the market has set no limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.limit.bytes()
    }

    /// Sets the limit. Bytes above it are released within a batch.
    pub(crate) fn set_limit(&self, bytes: Option<u64>) {
        self.limit.set(bytes);
    }

    /// Returns true if the query was refused memory it cannot work without, and has not got it yet.
    pub(crate) fn is_starved(&self) -> bool {
        self.limit.is_starved()
    }

    /// Records that the query was suspended for others, so that wall-clock time overstates its
    /// waiting.
    pub(crate) fn note_preempted(&self) {
        self.limit.note_preempted();
    }

    /// Returns the state of every operator, for the market.
    pub(crate) fn operator_states(&self) -> Vec<OperatorState> {
        self.reservations().states()
    }

    /// Returns the operators that have ended since the last call.
    pub(crate) fn ended_operators(&self) -> Vec<OperatorState> {
        self.reservations().take_ended()
    }

    /// Tells the market that an operator waits, for as long as the returned guard lives.
    pub(super) fn starving(&self) -> Starving<'_> {
        let (starving, is_first) = self.limit.starving();
        if is_first {
            self.budget.wakeup().hurry();
        }
        starving
    }

    /// Returns the bytes that its paged operators hold, which suspending it frees.
    pub(crate) fn paged_bytes(&self) -> u64 {
        self.paged_bytes.load(Ordering::Relaxed)
    }

    /// Wakes the market, because the query lacks memory that it cannot work without.
    pub(super) fn starve(&self) {
        if self.limit.starve() {
            self.budget.wakeup().hurry();
        }
    }

    /// Returns true if an operator that can work with less and holds `held` bytes may take `bytes`
    /// of the `free` ones: by the market's limit if there is one, otherwise by the rules of
    /// [`super::fairness`].
    pub(super) fn may_grow(&self, held: u64, bytes: u64, free: u64) -> bool {
        let Some(limit) = self.limit() else {
            return self.budget.fairness().permits(held, bytes, free);
        };
        let room = limit.saturating_sub(self.held_bytes());
        let may = self.budget.fairness().permits_within(held, bytes, room, free);
        if !may && self.limit.refuse() {
            self.budget.wakeup().hurry();
        }
        may
    }

    /// Returns the bytes that a paged operator which pins `held` bytes should release: its part, in
    /// proportion to what it holds, of the bytes that the query holds above its limit.
    pub(super) fn excess_of(&self, held: u64) -> u64 {
        let Some(limit) = self.limit() else { return 0 };
        let over = self.held_bytes().saturating_sub(limit);
        if over == 0 || held <= OPERATOR_FLOOR_BYTES {
            return 0;
        }
        let all = self.paged_bytes.load(Ordering::Relaxed);
        let part = u128::from(over) * u128::from(held) / u128::from(all.max(1));
        u64::try_from(part).unwrap_or(u64::MAX).min(held - OPERATOR_FLOOR_BYTES)
    }
}

impl fmt::Display for QueryMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = format_bytes(self.reserved_bytes());
        write!(f, "{}({held} of {})", self.query(), format_bytes(self.budget.ledger.budget()))
    }
}

impl fmt::Debug for QueryMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryMemoryPool")
            .field("query", &self.query())
            .field("operators", &self.operators())
            .finish_non_exhaustive()
    }
}

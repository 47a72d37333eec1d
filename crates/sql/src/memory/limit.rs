//! The market's memory limit of a query.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use terrace_sys::size::MIB;

use super::QueryMemory;
use super::reservations::OperatorState;

/// Bytes that every operator may hold whatever the limit: enough to make progress, a page of each
/// of some partitions.
pub(crate) const OPERATOR_FLOOR_BYTES: u64 = MIB;

/// Time for which a query counts as starved after a refusal; an operator that still lacks memory
/// asks again within it.
const STARVED_MS: u64 = 200;

/// Memory limit of a query, and its starvation state.
#[derive(Debug)]
pub(super) struct Limit {
    bytes: AtomicU64,
    began: Instant,
    /// Time of the last refusal, in milliseconds, at least 1; 0 after the request was granted.
    starved_at: AtomicU64,
    /// Number of operators that wait for memory that they cannot work without.
    waiters: AtomicU32,
    was_preempted: AtomicBool,
    /// True if an operator was refused by the limit since it was set.
    was_refused: AtomicBool,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(u64::MAX),
            began: Instant::now(),
            starved_at: AtomicU64::new(0),
            waiters: AtomicU32::new(0),
            was_preempted: AtomicBool::new(false),
            was_refused: AtomicBool::new(false),
        }
    }
}

impl Limit {
    /// Records that the query lacks memory it cannot work without. Returns true if that is new.
    fn starve(&self) -> bool {
        self.starved_at.swap(self.now(), Ordering::Relaxed) == 0
    }

    /// Records that the query has got the memory that it asked for.
    pub(super) fn feed(&self) {
        if self.starved_at.load(Ordering::Relaxed) != 0 {
            self.starved_at.store(0, Ordering::Relaxed);
        }
    }

    fn is_starved(&self) -> bool {
        let at = self.starved_at.load(Ordering::Relaxed);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            return true;
        }
        at != 0 && self.now().saturating_sub(at) <= STARVED_MS
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    pub(super) fn was_preempted(&self) -> bool {
        self.was_preempted.load(Ordering::Relaxed)
    }
}

/// Guard of an operator that waits for memory it cannot work without, until it is dropped.
pub(super) struct Starving<'a>(&'a Limit);

impl Drop for Starving<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl QueryMemory {
    /// Returns the bytes that the query may hold; `None` if the market has set no limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes < u64::MAX)
    }

    /// Sets the limit. Bytes above it are released within a batch.
    pub(crate) fn set_limit(&self, bytes: Option<u64>) {
        self.limit.bytes.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.limit.was_refused.store(false, Ordering::Relaxed);
    }

    /// Returns true if the query was refused memory it cannot work without, and has not got it yet.
    pub(crate) fn is_starved(&self) -> bool {
        self.limit.is_starved()
    }

    /// Records that the query was suspended for others, so that wall-clock time overstates its
    /// waiting.
    pub(crate) fn note_preempted(&self) {
        self.limit.was_preempted.store(true, Ordering::Relaxed);
    }

    /// Returns the state of every operator, for the market.
    pub(crate) fn operator_states(&self) -> Vec<OperatorState> {
        self.books().states()
    }

    /// Returns the operators that have ended since the last call.
    pub(crate) fn ended_operators(&self) -> Vec<OperatorState> {
        self.books().take_ended()
    }

    /// Tells the market that an operator waits, for as long as the returned guard lives.
    pub(super) fn starving(&self) -> Starving<'_> {
        if self.limit.waiters.fetch_add(1, Ordering::Relaxed) == 0 {
            self.budget.bell().hurry();
        }
        Starving(&self.limit)
    }

    /// Returns the bytes that its paged operators hold, which suspending it frees.
    pub(crate) fn paged_bytes(&self) -> u64 {
        self.paged_bytes.load(Ordering::Relaxed)
    }

    /// Wakes the market, because the query lacks memory that it cannot work without.
    pub(super) fn starve(&self) {
        if self.limit.starve() {
            self.budget.bell().hurry();
        }
    }

    /// Returns true if an operator that can work with less and holds `held` bytes may take `bytes`
    /// of the `free` ones: by the market's limit if there is one, otherwise by the rules of
    /// [`super::fair`].
    pub(super) fn may_grow(&self, held: u64, bytes: u64, free: u64) -> bool {
        let Some(limit) = self.limit() else {
            return self.budget.fairness().permits(held, bytes, free);
        };
        let room = limit.saturating_sub(self.held_bytes());
        let may = self.budget.fairness().permits_within(held, bytes, room, free);
        if !may && !self.limit.was_refused.swap(true, Ordering::Relaxed) {
            self.budget.bell().hurry();
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

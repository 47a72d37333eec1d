//! What the market lets a query have.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use terrace_sys::size::MIB;

use super::QueryMemory;
use super::books::OperatorState;

/// What every operator may hold whatever the market says: enough to go on with, a page of each of
/// some partitions.
pub(crate) const OPERATOR_FLOOR_BYTES: u64 = MIB;

/// How long a query counts as starved after it was refused: who still lacks asks again.
const STARVED_MS: u64 = 200;

/// Bytes that a query may hold, and whether it has less than it can work with.
#[derive(Debug)]
pub(super) struct Limit {
    bytes: AtomicU64,
    began: Instant,
    /// When it last lacked something, in milliseconds from one on; 0 since it got it.
    starved_at: AtomicU64,
    /// Operators that wait for what they cannot go on without.
    waiters: AtomicU32,
    was_preempted: AtomicBool,
    /// Whether an operator was refused by the limit since it was set.
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
    /// It lacks what it cannot go on without; whether that is new.
    fn starve(&self) -> bool {
        self.starved_at.swap(self.now(), Ordering::Relaxed) == 0
    }

    /// It has got what it asked for.
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

/// An operator that waits for what it cannot go on without, until the value is dropped.
pub(super) struct Starving<'a>(&'a Limit);

impl Drop for Starving<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl QueryMemory {
    /// Bytes that the query may hold; none while the market has set no limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes < u64::MAX)
    }

    /// Sets what the query may hold. What is above it is given back within a batch.
    pub(crate) fn set_limit(&self, bytes: Option<u64>) {
        self.limit.bytes.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.limit.was_refused.store(false, Ordering::Relaxed);
    }

    /// Whether it was refused what it cannot go on without, and has not got it yet.
    pub(crate) fn is_starved(&self) -> bool {
        self.limit.is_starved()
    }

    /// The query was suspended for others, so the clock says little of it.
    pub(crate) fn note_preempted(&self) {
        self.limit.was_preempted.store(true, Ordering::Relaxed);
    }

    /// Every operator as the market sees it.
    pub(crate) fn operator_states(&self) -> Vec<OperatorState> {
        self.books().states()
    }

    /// Operators that have ended since this was asked last.
    pub(crate) fn ended_operators(&self) -> Vec<OperatorState> {
        self.books().take_ended()
    }

    /// Has the market know that an operator waits, as long as the value lives.
    pub(super) fn starving(&self) -> Starving<'_> {
        if self.limit.waiters.fetch_add(1, Ordering::Relaxed) == 0 {
            self.budget.bell().hurry();
        }
        Starving(&self.limit)
    }

    /// Bytes that its paged operators hold: what suspending it sets free.
    pub(crate) fn paged_bytes(&self) -> u64 {
        self.paged_bytes.load(Ordering::Relaxed)
    }

    /// Has the market look, because the query lacks what it cannot go on without.
    pub(super) fn starve(&self) {
        if self.limit.starve() {
            self.budget.bell().hurry();
        }
    }

    /// Whether an operator that can do with less and holds `held` bytes may take `bytes` of `free`
    /// ones: by the market's limit, and without one by the rules of [`super::fair`].
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

    /// What a paged operator that pins `held` bytes should give back: its part, by what it holds,
    /// of what the query holds beyond its limit.
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

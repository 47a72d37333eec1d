//! Memory limit that the market sets for a query.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use terrace_sys::size::MIB;

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
    /// Returns the limit; `None` if the market has set none.
    pub(super) fn bytes(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes < u64::MAX)
    }

    pub(super) fn set(&self, bytes: Option<u64>) {
        self.bytes.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.was_refused.store(false, Ordering::Relaxed);
    }

    /// Records that an operator was refused by the limit. Returns true if it is the first since the
    /// limit was set.
    pub(super) fn refuse(&self) -> bool {
        !self.was_refused.swap(true, Ordering::Relaxed)
    }

    pub(super) fn note_preempted(&self) {
        self.was_preempted.store(true, Ordering::Relaxed);
    }

    /// Records an operator that waits, until the guard is dropped. The flag is true if no other one
    /// waits.
    pub(super) fn starving(&self) -> (Starving<'_>, bool) {
        let is_first = self.waiters.fetch_add(1, Ordering::Relaxed) == 0;
        (Starving(self), is_first)
    }

    /// Records that the query lacks memory it cannot work without. Returns true if that is new.
    pub(super) fn starve(&self) -> bool {
        self.starved_at.swap(self.now(), Ordering::Relaxed) == 0
    }

    /// Records that the query has got the memory that it asked for.
    pub(super) fn feed(&self) {
        if self.starved_at.load(Ordering::Relaxed) != 0 {
            self.starved_at.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn is_starved(&self) -> bool {
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

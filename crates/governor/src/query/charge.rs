//! The claim that a query is charged to, and the part of its request that was counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::market::{CacheClass, Claim};

/// The claim that a query is charged to, and the part of it that the market has counted.
#[derive(Debug)]
pub(super) struct Charge {
    claim: Claim,
    class: Arc<CacheClass>,
    /// Part of a request that was counted, in millionths.
    credited: AtomicU64,
    /// [`AWAITED`] while the reader waits for its next rows; otherwise the microseconds from its
    /// beginning until the reader received the last ones.
    unread_at: AtomicU64,
}

const MILLION: f64 = 1e6;

const AWAITED: u64 = u64::MAX;

/// A reader that has taken no rows for less than this is considered busy with the last ones.
const BUSY_MAX: Duration = Duration::from_millis(100);

impl Charge {
    pub(super) fn new(claim: Claim, class: Arc<CacheClass>) -> Self {
        Self { claim, class, credited: AtomicU64::new(0), unread_at: AtomicU64::new(AWAITED) }
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn class(&self) -> &Arc<CacheClass> {
        &self.class
    }

    /// Returns the part of a request that was counted so far.
    pub(super) fn credited(&self) -> f64 {
        // Millionths of one request are exact.
        self.credited.load(Ordering::Relaxed) as f64 / MILLION
    }

    /// Counts a part of a request, up to one in all. Returns the part counted by this call.
    pub(super) fn credit(&self, part: f64) -> f64 {
        let part = part.min(1.0 - self.credited()).max(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "at most a million")]
        #[expect(clippy::cast_sign_loss, reason = "at least zero")]
        self.credited.fetch_add((part * MILLION) as u64, Ordering::Relaxed);
        part
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.unread_at.load(Ordering::Relaxed) == AWAITED
    }

    /// Returns true if the reader waits for the next rows, or did a moment ago, at `elapsed` after
    /// the beginning of its query.
    pub(super) fn is_read(&self, elapsed: Duration) -> bool {
        // For an awaited query `unread_at` is far in the future, so the difference saturates at
        // zero.
        let unread_at = Duration::from_micros(self.unread_at.load(Ordering::Relaxed));
        elapsed.saturating_sub(unread_at) < BUSY_MAX
    }

    /// Records if the reader waits for the next rows, at `elapsed()` after the beginning of its
    /// query.
    pub(super) fn await_rows(&self, awaited: bool, elapsed: impl FnOnce() -> Duration) {
        let passed = || u64::try_from(elapsed().as_micros()).unwrap_or(AWAITED - 1);
        let unread_at = if awaited { AWAITED } else { passed() };
        self.unread_at.store(unread_at, Ordering::Relaxed);
    }
}

//! Market accounting of a query: its claim (tenant and SLA), its limits and its preemption.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Query;
use crate::market::{CacheClass, Claim, Need};

/// The claim that a query is charged to, and the part of it that the market has counted.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) claim: Claim,
    pub(super) class: Arc<CacheClass>,
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
}

impl Query {
    /// Returns the claim that it is charged to: the tenant and the SLA of its session when it
    /// began.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.charge.claim
    }

    /// Returns the cached tables shared by all queries with the same claim.
    pub(crate) fn class(&self) -> &Arc<CacheClass> {
        &self.charge.class
    }

    /// Returns the part of a request that was counted so far.
    pub(crate) fn credited(&self) -> f64 {
        // Millionths of one request are exact.
        self.charge.credited.load(Ordering::Relaxed) as f64 / MILLION
    }

    /// Counts a part of a request, up to one in all. Returns the part counted by this call.
    pub(crate) fn credit(&self, part: f64) -> f64 {
        let part = part.min(1.0 - self.credited()).max(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "at most a million")]
        #[expect(clippy::cast_sign_loss, reason = "at least zero")]
        self.charge.credited.fetch_add((part * MILLION) as u64, Ordering::Relaxed);
        part
    }

    /// Returns true while it is planned or its reader waits for the next rows. At other times any
    /// delay is the reader's.
    pub(crate) fn is_awaited(&self) -> bool {
        self.charge.unread_at.load(Ordering::Relaxed) == AWAITED
    }

    /// Returns true if its reader waits for the next rows, or did a moment ago and is busy with the
    /// last ones.
    pub(crate) fn is_read(&self) -> bool {
        // For an awaited query `unread_at` is far in the future, so the difference saturates at
        // zero.
        let unread_at = Duration::from_micros(self.charge.unread_at.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(unread_at) < BUSY_MAX
    }

    pub(super) fn await_rows(&self, awaited: bool) {
        let passed = || u64::try_from(self.began.elapsed().as_micros()).unwrap_or(AWAITED - 1);
        let unread_at = if awaited { AWAITED } else { passed() };
        self.charge.unread_at.store(unread_at, Ordering::Relaxed);
    }

    /// Sets its memory limit, which its share of its tenant's limit may lower; beyond the limit its
    /// pages are the first to be evicted.
    pub(crate) fn limit(&self, bytes: Option<u64>) {
        let share = self.turn().and_then(|turn| turn.share_bytes());
        let bytes = bytes.into_iter().chain(share).min();
        self.memory.set_limit(bytes);
        self.space.set_grant(bytes);
    }

    /// Preempts it for a query of a higher priority.
    pub(crate) fn preempt(&self, need: Need) {
        self.memory.note_preempted();
        self.suspension.preempt(need);
    }

    /// Returns true if admission control has suspended it until older queries release memory.
    pub(crate) fn is_crowded(&self) -> bool {
        self.suspension.is_crowded()
    }

    /// Suspends it until older queries release memory, or resumes it.
    pub(crate) fn crowd(&self, crowded: bool) {
        if crowded {
            self.memory.note_preempted();
        }
        self.suspension.crowd(crowded);
    }

    /// Pauses it while processor time is worth more to other queries, or resumes it.
    pub(crate) fn outbid(&self, outbid: bool) {
        self.suspension.outbid(outbid);
    }

    /// Returns true if it has been paused for at least `least`.
    pub(crate) fn is_paused_for(&self, least: Duration) -> bool {
        self.suspension.is_paused_for(least)
    }

    /// Makes it unpin its pages if it has been paused for at least `after`.
    pub(crate) fn unpin_paused(&self, after: Duration) {
        if self.suspension.unpin_paused(after) {
            self.memory.note_preempted();
        }
    }

    /// Ends the preemption for queries of a higher priority.
    pub(crate) fn release(&self) {
        self.suspension.release();
    }
}

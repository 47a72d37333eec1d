//! Market accounting of a query: its claim (tenant and SLA), its limits and its preemption.

use std::sync::Arc;
use std::time::Duration;

use super::Query;
use crate::market::{CacheClass, Claim, Need};

impl Query {
    /// Returns the claim that it is charged to: the tenant and the SLA of its session when it
    /// began.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        self.charge.claim()
    }

    /// Returns the cached tables shared by all queries with the same claim.
    pub fn class(&self) -> &Arc<CacheClass> {
        self.charge.class()
    }

    /// Returns the part of a request that was counted so far.
    pub(crate) fn credited(&self) -> f64 {
        self.charge.credited()
    }

    /// Counts a part of a request, up to one in all. Returns the part counted by this call.
    pub(crate) fn credit(&self, part: f64) -> f64 {
        self.charge.credit(part)
    }

    /// Returns true while it is planned or its reader waits for the next rows. At other times any
    /// delay is the reader's.
    pub(crate) fn is_awaited(&self) -> bool {
        self.charge.is_awaited()
    }

    /// Returns true if its reader waits for the next rows, or received the last ones less than 100
    /// ms ago.
    pub fn is_read(&self) -> bool {
        self.charge.is_read(self.began.elapsed())
    }

    /// Records that its reader waits for the next rows (`awaited`), or has received them.
    pub fn await_rows(&self, awaited: bool) {
        self.charge.await_rows(awaited, || self.began.elapsed());
    }

    /// Sets its memory limit, which its share of its tenant's limit may lower; beyond the limit its
    /// pages are the first to be evicted.
    pub fn limit(&self, bytes: Option<u64>) {
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
    pub(crate) fn admission(&self, crowded: bool) {
        if crowded {
            self.memory.note_preempted();
        }
        self.suspension.admission(crowded);
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
    pub fn release(&self) {
        self.suspension.release();
    }
}

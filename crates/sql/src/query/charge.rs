//! A query as the market knows it: by whose claim it is charged, and what it must put up with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Query;
use crate::market::{CacheClass, Claim, Need};

/// What a query is charged by, and how much of it the market has counted.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) claim: Claim,
    pub(super) class: Arc<CacheClass>,
    /// The part of a request that was counted, in millionths.
    credited: AtomicU64,
    /// [`AWAITED`] while its next rows are waited for; otherwise the microseconds from its
    /// beginning until its reader had the last ones.
    unread_at: AtomicU64,
}

const MILLION: f64 = 1e6;

const AWAITED: u64 = u64::MAX;

/// A reader that takes no rows for less than this is at work on those that it has.
const BUSY_MAX: Duration = Duration::from_millis(100);

impl Charge {
    pub(super) fn new(claim: Claim, class: Arc<CacheClass>) -> Self {
        Self { claim, class, credited: AtomicU64::new(0), unread_at: AtomicU64::new(AWAITED) }
    }
}

impl Query {
    /// What it is charged by: the tenant and the SLA of its session when it began.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.charge.claim
    }

    /// The cached tables of those with the same claim.
    pub(crate) fn class(&self) -> &Arc<CacheClass> {
        &self.charge.class
    }

    /// The part of a request that was counted so far.
    pub(crate) fn credited(&self) -> f64 {
        // Millionths of one request are exact.
        self.charge.credited.load(Ordering::Relaxed) as f64 / MILLION
    }

    /// Counts a part of a request, up to one in all; what was counted now.
    pub(crate) fn credit(&self, part: f64) -> f64 {
        let part = part.min(1.0 - self.credited()).max(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "at most a million")]
        #[expect(clippy::cast_sign_loss, reason = "at least zero")]
        self.charge.credited.fetch_add((part * MILLION) as u64, Ordering::Relaxed);
        part
    }

    /// True while it is planned or its next rows are waited for. At other times it is its reader
    /// that is late.
    pub(crate) fn is_awaited(&self) -> bool {
        self.charge.unread_at.load(Ordering::Relaxed) == AWAITED
    }

    /// True if its next rows are waited for, or were a moment ago: its reader is at work on the
    /// last ones.
    pub(crate) fn is_read(&self) -> bool {
        // Of one that is awaited it is beyond all times.
        let unread_at = Duration::from_micros(self.charge.unread_at.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(unread_at) < BUSY_MAX
    }

    pub(super) fn await_rows(&self, awaited: bool) {
        let passed = || u64::try_from(self.began.elapsed().as_micros()).unwrap_or(AWAITED - 1);
        let unread_at = if awaited { AWAITED } else { passed() };
        self.charge.unread_at.store(unread_at, Ordering::Relaxed);
    }

    /// Sets what it may hold, its share of what its tenant may at most; beyond that its pages are
    /// the first to go.
    pub(crate) fn limit(&self, bytes: Option<u64>) {
        let share = self.turn().and_then(|turn| turn.share_bytes());
        let bytes = bytes.into_iter().chain(share).min();
        self.memory.set_limit(bytes);
        self.space.set_grant(bytes);
    }

    /// Stops it for a query of a higher priority.
    pub(crate) fn preempt(&self, need: Need) {
        self.memory.note_preempted();
        self.suspension.preempt(need);
    }

    /// Whether it waits until older queries have given memory back.
    pub(crate) fn is_crowded(&self) -> bool {
        self.suspension.is_crowded()
    }

    /// Has it wait until older queries have given memory back, or no longer.
    pub(crate) fn crowd(&self, crowded: bool) {
        if crowded {
            self.memory.note_preempted();
        }
        self.suspension.crowd(crowded);
    }

    /// Has it wait while processor time is worth more to others, or no longer.
    pub(crate) fn outbid(&self, outbid: bool) {
        self.suspension.outbid(outbid);
    }

    /// True if it has been paused for at least so long.
    pub(crate) fn is_paused_for(&self, least: Duration) -> bool {
        self.suspension.is_paused_for(least)
    }

    /// Has it give back what it holds if it has been paused for so long.
    pub(crate) fn unpin_paused(&self, after: Duration) {
        if self.suspension.unpin_paused(after) {
            self.memory.note_preempted();
        }
    }

    /// Lets it go on, as far as queries of a higher priority are concerned.
    pub(crate) fn release(&self) {
        self.suspension.release();
    }
}

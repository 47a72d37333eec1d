//! Stopping a query without ending it.

use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::WaitReason;
use crate::market::Need;

/// Whether a query is suspended, and who waits for it to go on.
///
/// What suspends is not interrupted: a paged operator drops its pins at its next batch and waits.
/// The stream of the result is read on, so that the operators in it come to that, and keeps the few
/// batches that they still give. Nothing is written for it; the pool evicts the unpinned pages when
/// others need their frames.
///
/// Its reader suspends it while it takes no rows, people may, and the market does, for queries of a
/// higher priority or for older ones while memory has no room for all; it goes on when none of them
/// wants it suspended. Where others need the processor and no memory - those of a higher priority,
/// or those for whom time is worth more - the market *pauses* it: its operators stand still with
/// what they hold, since to unpin and to pin again would cost more than the moment is long.
#[derive(Debug)]
pub(crate) struct Suspension {
    by: watch::Sender<By>,
}

#[derive(Clone, Copy, Debug, Default)]
struct By {
    people: bool,
    market: bool,
    /// The market has paused it for one of a higher priority.
    paused: bool,
    /// The market has paused it for others whose penalties are higher.
    outbid: bool,
    /// The beginning of the pause that it is in.
    paused_since: Option<Instant>,
    /// While it is paused, memory is too short for what it holds.
    unpins: bool,
    /// There are more queries than memory has room for, and it is the youngest.
    crowded: bool,
    /// Its reader takes no rows.
    resting: bool,
    /// The query is to end.
    cancelled: bool,
}

impl By {
    /// Whether it is to unpin and wait.
    fn any(self) -> bool {
        let unpins = self.unpins && self.is_paused();
        self.people || self.market || self.crowded || self.resting || unpins
    }

    fn is_paused(self) -> bool {
        self.paused || self.outbid
    }

    /// The same, with the time of the pause it is in.
    fn timed(self) -> Self {
        let since = self.is_paused().then(|| self.paused_since.unwrap_or_else(Instant::now));
        Self { paused_since: since, unpins: self.unpins && self.is_paused(), ..self }
    }

    /// True if it has been paused for at least so long.
    fn is_paused_for(self, least: Duration) -> bool {
        self.paused_since.is_some_and(|since| since.elapsed() >= least)
    }

    /// Whether it is to stand still. Who is to unpin must go on as far as that.
    fn stands_still(self) -> bool {
        self.is_paused() && !self.any()
    }
}

impl Default for Suspension {
    fn default() -> Self {
        Self { by: watch::Sender::new(By::default()) }
    }
}

impl Suspension {
    /// Stops the query, or lets it go on, also if the market has stopped it.
    pub(crate) fn set(&self, suspended: bool) {
        self.by.send_modify(|by| {
            // Who resumes it means all but its end.
            *by = if suspended {
                By { people: true, ..*by }
            } else {
                By { cancelled: by.cancelled, ..By::default() }
            };
        });
    }

    /// Wakes whoever reads or waits: the query is to end.
    pub(crate) fn cancel(&self) {
        self.by.send_modify(|by| *by = By { cancelled: true, ..By::default() });
    }

    /// What ends when the query is cancelled.
    pub(crate) fn cancelled(&self) -> BoxFuture<'static, ()> {
        let mut by = self.by.subscribe();
        let cancelled = async move {
            // Without its sender the query is gone, and with it whoever waits here.
            drop(by.wait_for(|by| by.cancelled).await);
        };
        cancelled.boxed()
    }

    /// Stops the query for one of a higher priority.
    pub(crate) fn preempt(&self, need: Need) {
        self.by.send_modify(|by| {
            match need {
                Need::Memory => by.market = !by.cancelled,
                Need::Time => by.paused = !by.cancelled,
            }
            *by = by.timed();
        });
    }

    /// No query of a higher priority needs anything of it any more.
    pub(crate) fn release(&self) {
        self.by.send_modify(|by| *by = By { market: false, paused: false, ..*by }.timed());
    }

    /// Pauses it while the time of others is worth more, or no longer.
    pub(crate) fn outbid(&self, outbid: bool) {
        self.by.send_if_modified(|by| {
            let before = std::mem::replace(&mut by.outbid, outbid && !by.cancelled);
            *by = by.timed();
            before != by.outbid
        });
    }

    /// True of a query that has been paused for at least so long.
    pub(crate) fn is_paused_for(&self, least: Duration) -> bool {
        self.by.borrow().is_paused_for(least)
    }

    /// Has it unpin what it holds if it has been paused for so long; true if it had not been told
    /// before.
    pub(crate) fn unpin_paused(&self, after: Duration) -> bool {
        self.by.send_if_modified(|by| {
            let tells = by.is_paused_for(after) && !by.unpins;
            by.unpins |= tells;
            tells
        })
    }

    /// The party that has stopped it, if one has.
    pub(super) fn reason(&self) -> Option<WaitReason> {
        match *self.by.borrow() {
            By { people: true, .. } => Some(WaitReason::User),
            By { crowded: true, .. } => Some(WaitReason::Admission),
            By { market: true, .. } => Some(WaitReason::PriorityMemory),
            By { paused: true, .. } => Some(WaitReason::PriorityTime),
            By { outbid: true, .. } => Some(WaitReason::Time),
            By { resting: true, .. } => Some(WaitReason::Client),
            _ => None,
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.by.borrow().any()
    }

    /// Whether the market alone has stopped it.
    pub(crate) fn is_preempted(&self) -> bool {
        let by = *self.by.borrow();
        (by.market || by.paused || by.outbid || by.crowded) && !by.people
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.by.borrow().crowded
    }

    /// Stops the query while its reader takes no rows, or no longer.
    pub(crate) fn rest(&self, resting: bool) {
        self.by.send_modify(|by| by.resting = resting && !by.cancelled);
    }

    /// Has it wait until others have given memory back, or no longer.
    pub(crate) fn crowd(&self, crowded: bool) {
        self.by.send_modify(|by| by.crowded = crowded && !by.cancelled);
    }

    /// While the query is paused, what ends when it may go on.
    pub(crate) fn pause(&self) -> Option<BoxFuture<'static, ()>> {
        self.until(By::stands_still)
    }

    /// While the query is suspended, what ends when it goes on.
    pub(crate) fn wait(&self) -> Option<BoxFuture<'static, ()>> {
        self.until(By::any)
    }

    /// While `is` so, what ends when it no longer is.
    fn until(&self, is: fn(By) -> bool) -> Option<BoxFuture<'static, ()>> {
        if !is(*self.by.borrow()) {
            return None;
        }
        let mut by = self.by.subscribe();
        let ended = async move {
            // Without its sender the query is gone, and with it whoever waits here.
            drop(by.wait_for(|by| !is(*by)).await);
        };
        Some(ended.boxed())
    }
}

//! Suspension of a query: stops it without ending it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::wait::WaitReason;
use crate::market::Need;

/// Suspension state of a query, and the tasks that wait for it to be resumed.
///
/// Suspending does not interrupt: a paged operator drops its pins at its next batch and waits, or
/// while it waits for its input; a join keeps its table to the end of a batch of its probe side.
/// The result stream is polled further, so that the operators reach that point, and keeps the few
/// batches that they still return. Nothing is written to suspend a query; the pool evicts the
/// unpinned pages when other queries need their frames.
///
/// A query is suspended by its reader while it takes no rows, by a user, and by the market in favor
/// of queries of a higher priority or, by admission control, of older ones; it is resumed when none
/// of these reasons remains. If other queries need the processor but no memory (those of a higher
/// priority, or those whose delay costs more), the market *pauses* it: its operators stop and keep
/// their pins, since unpinning and pinning again would cost more than a short pause.
#[derive(Debug)]
pub struct Suspension {
    by: watch::Sender<By>,
    /// Number of locks of tables that its tasks wait for.
    lock_waits: AtomicUsize,
}

/// A wait for a lock, which counts until this value is dropped.
#[derive(Debug)]
pub struct LockWait<'a>(&'a Suspension);

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        self.0.lock_waits.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct By {
    people: bool,
    market: bool,
    /// True if the market has paused it for a query of a higher priority.
    paused: bool,
    /// True if the market has paused it for queries with higher penalties.
    outbid: bool,
    /// Beginning of the current pause.
    paused_since: Option<Instant>,
    /// True if memory is too short for what it holds while it is paused.
    unpins: bool,
    /// True if memory has no room for all queries, and it is among the youngest.
    crowded: bool,
    /// True if its reader takes no rows.
    resting: bool,
    /// True if the query is to end.
    cancelled: bool,
}

impl By {
    /// Returns true if it is to unpin and wait.
    fn any(self) -> bool {
        let unpins = self.unpins && self.is_paused();
        self.people || self.market || self.crowded || self.resting || unpins
    }

    fn is_paused(self) -> bool {
        self.paused || self.outbid
    }

    /// Returns the same state with the pause timer started or cleared.
    fn timed(self) -> Self {
        let since = self.is_paused().then(|| self.paused_since.unwrap_or_else(Instant::now));
        Self { paused_since: since, unpins: self.unpins && self.is_paused(), ..self }
    }

    /// Returns true if it has been paused for at least `least`.
    fn is_paused_for(self, least: Duration) -> bool {
        self.paused_since.is_some_and(|since| since.elapsed() >= least)
    }

    /// Returns true if it is to stop and keep its pins. A query that is to unpin must run until it
    /// has.
    fn stands_still(self) -> bool {
        self.is_paused() && !self.any()
    }
}

impl Default for Suspension {
    fn default() -> Self {
        Self { by: watch::Sender::new(By::default()), lock_waits: AtomicUsize::new(0) }
    }
}

impl Suspension {
    /// Suspends the query on behalf of a user, or resumes it, also from suspension by the market.
    pub fn set(&self, suspended: bool) {
        self.by.send_modify(|by| {
            // Resuming clears every reason except cancellation.
            *by = if suspended {
                By { people: true, ..*by }
            } else {
                By { cancelled: by.cancelled, ..By::default() }
            };
        });
    }

    /// Cancels the query, and wakes its reader and its waiting tasks.
    pub fn cancel(&self) {
        self.by.send_modify(|by| *by = By { cancelled: true, ..By::default() });
    }

    /// Returns a future that completes when the query is cancelled.
    pub fn cancelled(&self) -> BoxFuture<'static, ()> {
        let mut by = self.by.subscribe();
        let cancelled = async move {
            // If the sender is gone, the query is gone too, and with it the task that waits here.
            drop(by.wait_for(|by| by.cancelled).await);
        };
        cancelled.boxed()
    }

    /// Preempts the query for one of a higher priority.
    pub(crate) fn preempt(&self, need: Need) {
        self.by.send_modify(|by| {
            match need {
                Need::Memory => by.market = !by.cancelled,
                Need::Time => by.paused = !by.cancelled,
            }
            *by = by.timed();
        });
    }

    /// Ends the preemption for queries of a higher priority.
    pub fn release(&self) {
        self.by.send_modify(|by| *by = By { market: false, paused: false, ..*by }.timed());
    }

    /// Pauses it while the time of other queries is worth more, or resumes it.
    pub(crate) fn outbid(&self, outbid: bool) {
        self.by.send_if_modified(|by| {
            let before = std::mem::replace(&mut by.outbid, outbid && !by.cancelled);
            *by = by.timed();
            before != by.outbid
        });
    }

    /// Returns true if the query has been paused for at least `least`.
    pub(crate) fn is_paused_for(&self, least: Duration) -> bool {
        self.by.borrow().is_paused_for(least)
    }

    /// Tells it to unpin what it holds if it has been paused for at least `after`. Returns true if
    /// it had not been told before.
    pub(crate) fn unpin_paused(&self, after: Duration) -> bool {
        self.by.send_if_modified(|by| {
            let tells = by.is_paused_for(after) && !by.unpins;
            by.unpins |= tells;
            tells
        })
    }

    /// Records that a task of the query waits for a lock of a table, until the value is dropped.
    #[must_use]
    pub fn wait_for_lock(&self) -> LockWait<'_> {
        self.lock_waits.fetch_add(1, Ordering::Relaxed);
        LockWait(self)
    }

    /// Returns true while a task of the query waits for a lock.
    #[must_use]
    pub fn waits_for_lock(&self) -> bool {
        self.lock_waits.load(Ordering::Relaxed) > 0
    }

    /// Returns the reason that it is stopped for, if it is.
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

    /// Returns true if it is to unpin its pages and wait.
    pub fn is_set(&self) -> bool {
        self.by.borrow().any()
    }

    /// Returns true if only the market has stopped it.
    pub(crate) fn is_preempted(&self) -> bool {
        let by = *self.by.borrow();
        (by.market || by.paused || by.outbid || by.crowded) && !by.people
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.by.borrow().crowded
    }

    /// Suspends the query while its reader takes no rows, or resumes it.
    pub fn rest(&self, resting: bool) {
        self.by.send_modify(|by| by.resting = resting && !by.cancelled);
    }

    /// Suspends it until other queries release memory, or resumes it.
    pub(crate) fn admission(&self, crowded: bool) {
        self.by.send_modify(|by| by.crowded = crowded && !by.cancelled);
    }

    /// Returns a future that completes when the pause ends; `None` if the query is not paused.
    pub fn pause(&self) -> Option<BoxFuture<'static, ()>> {
        self.until(By::stands_still)
    }

    /// Returns a future that completes when the suspension ends; `None` if the query is not
    /// suspended.
    pub fn wait(&self) -> Option<BoxFuture<'static, ()>> {
        self.until(By::any)
    }

    /// Returns a future that completes once the query is suspended.
    pub(crate) fn begins(&self) -> BoxFuture<'static, ()> {
        let mut by = self.by.subscribe();
        let begun = async move {
            if by.wait_for(|by| by.any()).await.is_err() {
                // The query is gone, and with it the task that waits here.
                std::future::pending::<()>().await;
            }
        };
        begun.boxed()
    }

    /// Returns a future that ends when `is` no longer holds, if it holds now.
    fn until(&self, is: fn(By) -> bool) -> Option<BoxFuture<'static, ()>> {
        if !is(*self.by.borrow()) {
            return None;
        }
        let mut by = self.by.subscribe();
        let ended = async move {
            // If the sender is gone, the query is gone too, and with it the task that waits here.
            drop(by.wait_for(|by| !is(*by)).await);
        };
        Some(ended.boxed())
    }
}

//! Queue of the tables whose small chunks are to be merged.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use futures::future::LocalBoxFuture;
use terrace_sys::sync::lock;
use tokio::sync::Notify;

use crate::error::SqlError;

/// Delay of a merge, during which more chunks may be added to the table.
const GATHER: Duration = Duration::from_millis(100);
/// Maximum delay of a merge while transactions are open: a transaction that has read the table
/// before a merge and changes it afterwards conflicts.
const DEFER: Duration = Duration::from_secs(2);
/// Initial and maximum back-off after a merge that was not completed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
/// Maximum pause after a merge.
const REST_MAX: Duration = Duration::from_secs(1);

/// Outcome of a merge.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Merged {
    /// The merge is committed.
    Done,
    /// No chunks of the table are worth a merge.
    Nothing,
    /// A statement has removed one of the chunks, or a transaction has rewritten rows of the table.
    Conflict,
    /// The engine is shutting down.
    Stopped,
}

/// Interface of a table whose small chunks can be merged, as the merge thread uses it.
pub(crate) trait Mergeable: Send + Sync + 'static {
    /// Returns its id.
    fn id(&self) -> u64;

    /// Returns its schema and name.
    fn full_name(&self) -> String;

    /// Returns true if some of its chunks are worth a merge.
    fn wants_merge(&self) -> bool;

    /// Returns true while transactions of several statements are open, on whichever table.
    fn has_transactions(&self) -> bool;

    /// Merges the range of small chunks to be merged next, if there is one. `is_stopped` is polled
    /// between chunks.
    fn merge<'a>(
        self: Arc<Self>,
        memory: &'a Arc<dyn MemoryPool>,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> LocalBoxFuture<'a, Result<Merged, SqlError>>;

    /// Counts a merge that failed.
    fn count_failure(&self);
}

/// Entry of a table in the queue.
pub(super) struct Waiting {
    table: Weak<dyn Mergeable>,
    id: u64,
    due: Instant,
    /// Time at which it was put in the queue.
    since: Instant,
    /// Back-off after the last merge that was not completed.
    pause: Duration,
}

impl Waiting {
    /// Returns the table, if it still exists.
    pub(super) fn table(&self) -> Option<Arc<dyn Mergeable>> {
        self.table.upgrade()
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    is_stopped: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    rung: Condvar,
    stopped: Notify,
}

/// Queue of the tables with chunks to be merged. Clones share the same queue.
#[derive(Clone, Default)]
pub(crate) struct MergeQueue(Arc<Shared>);

impl MergeQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.0.queue)
    }

    /// Puts a table in the queue if it has chunks worth a merge and is not in the queue.
    pub fn note(&self, table: &Arc<impl Mergeable>) {
        self.note_any(&(Arc::clone(table) as Arc<dyn Mergeable>));
    }

    /// As [`MergeQueue::note`], for a table behind a trait object.
    pub(super) fn note_any(&self, table: &Arc<dyn Mergeable>) {
        if !table.wants_merge() {
            return;
        }
        let (id, since) = (table.id(), Instant::now());
        let due = since + GATHER;
        let mut queue = self.queue();
        if queue.waiting.iter().all(|waiting| waiting.id != id) {
            let (table, pause) = (Arc::downgrade(table), Duration::ZERO);
            queue.waiting.push(Waiting { table, id, due, since, pause });
            self.0.rung.notify_all();
        }
    }

    /// Waits until a table is due and takes it; `None` when the thread is to stop.
    pub(super) fn take(&self) -> Option<Waiting> {
        let mut queue = self.queue();
        loop {
            if queue.is_stopped {
                return None;
            }
            let next = queue.waiting.iter().map(|waiting| waiting.due).enumerate();
            let Some((place, due)) = next.min_by_key(|(_, due)| *due) else {
                queue = self.0.rung.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let patience = due.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                return Some(queue.waiting.swap_remove(place));
            }
            let waited = self.0.rung.wait_timeout(queue, patience);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Puts a table back into the queue, and returns `None`, if its merge is to wait for open
    /// transactions; otherwise returns the table.
    pub(super) fn defer(&self, mut waiting: Waiting, table: &dyn Mergeable) -> Option<Waiting> {
        if waiting.since.elapsed() >= DEFER || !table.has_transactions() {
            return Some(waiting);
        }
        waiting.due = Instant::now() + GATHER;
        self.put_back(waiting);
        None
    }

    /// Puts a table whose merge was not completed back into the queue, after a back-off.
    pub(super) fn retry(&self, mut waiting: Waiting) {
        waiting.pause = (2 * waiting.pause).clamp(PAUSE.0, PAUSE.1);
        waiting.due = Instant::now() + waiting.pause;
        self.put_back(waiting);
    }

    fn put_back(&self, waiting: Waiting) {
        let mut queue = self.queue();
        // A commit may have put the table in the queue meanwhile.
        queue.waiting.retain(|other| other.id != waiting.id);
        queue.waiting.push(waiting);
    }

    /// Waits for as long as the last merge took, but at most [`REST_MAX`], or until the thread is
    /// to stop.
    pub(super) fn rest(&self, took: Duration) {
        let queue = self.queue();
        let took = took.min(REST_MAX);
        let waited = self.0.rung.wait_timeout_while(queue, took, |queue| !queue.is_stopped);
        drop(waited);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.queue().is_stopped
    }

    /// Tells the thread to stop, and wakes it.
    pub(super) fn stop(&self) {
        self.queue().is_stopped = true;
        self.0.rung.notify_all();
        self.0.stopped.notify_one();
    }

    /// Waits until the thread is to stop.
    pub(super) async fn stopped(&self) {
        self.0.stopped.notified().await;
    }
}

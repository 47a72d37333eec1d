//! Background thread that merges small chunks, and its queue of tables.
//!
//! A commit that leaves chunks worth a merge puts its table in the queue. The thread takes tables
//! out of it one at a time, after a short delay so that more chunks come together, and rests after
//! each merge for as long as it took: queries keep at least half of the machine and the device. A
//! failed merge is retried after a back-off that doubles.
//!
//! A merge takes memory like any write statement: as a named consumer of the ledger, which takes
//! what is free and writes a chunk early if nothing is.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use futures::future::{Either, select};
use terrace_exec::run_blocking;
use terrace_sys::sync::lock;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use super::merge::Merged;
use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::memory::{MemoryBudget, QueryMemory};
use crate::table::Table;

/// Delay of a merge, during which more chunks may be added to the table.
const GATHER: Duration = Duration::from_millis(100);
/// Initial and maximum back-off after a merge that was not completed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
/// Maximum rest after a merge.
const REST_MAX: Duration = Duration::from_secs(1);

/// A table in the queue.
struct Waiting {
    table: Weak<Table>,
    id: u64,
    due: Instant,
    /// Back-off after the last merge that was not completed.
    pause: Duration,
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
    pub(crate) fn note(&self, table: &Arc<Table>) {
        if !table.wants_merge() {
            return;
        }
        let (id, due) = (table.id(), Instant::now() + GATHER);
        let mut queue = self.queue();
        if queue.waiting.iter().all(|waiting| waiting.id != id) {
            let (table, pause) = (Arc::downgrade(table), Duration::ZERO);
            queue.waiting.push(Waiting { table, id, due, pause });
            self.0.rung.notify_all();
        }
    }

    /// Waits until a table is due and takes it; `None` when the thread is to stop.
    fn take(&self) -> Option<Waiting> {
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

    /// Puts a table back whose merge was not completed.
    fn retry(&self, mut waiting: Waiting) {
        waiting.pause = (2 * waiting.pause).clamp(PAUSE.0, PAUSE.1);
        waiting.due = Instant::now() + waiting.pause;
        let mut queue = self.queue();
        // A commit may have put the table in the queue meanwhile.
        queue.waiting.retain(|other| other.id != waiting.id);
        queue.waiting.push(waiting);
    }

    /// Waits for as long as the last merge took, or until the thread is to stop.
    fn rest(&self, took: Duration) {
        let queue = self.queue();
        let took = took.min(REST_MAX);
        let waited = self.0.rung.wait_timeout_while(queue, took, |queue| !queue.is_stopped);
        drop(waited);
    }

    fn is_stopped(&self) -> bool {
        self.queue().is_stopped
    }
}

/// Handle of the merge thread; dropping it stops the thread.
pub(crate) struct Merger {
    queue: MergeQueue,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Merger {
    /// Starts the thread over the tables of `catalog`, and queues those with chunks worth a merge.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub(crate) fn start(catalog: &Catalog, budget: &Arc<MemoryBudget>) -> std::io::Result<Self> {
        let queue = catalog.merges().clone();
        for table in catalog.schemas().iter().flat_map(|schema| catalog.tables(schema)) {
            queue.note(&table);
        }
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (own, budget) = (queue.clone(), Arc::clone(budget));
        let thread = std::thread::Builder::new().name("terrace-merges".to_owned());
        let thread = thread.spawn(move || run(&own, &budget, &runtime))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Stops the thread, and abandons its current merge.
    pub(crate) fn stop(&self) {
        self.queue.queue().is_stopped = true;
        self.queue.0.rung.notify_all();
        self.queue.0.stopped.notify_one();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // A panic of the thread was reported already.
            let _ = run_blocking(|| thread.join());
        }
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Merger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Merger")
    }
}

/// Runs the thread's loop.
fn run(queue: &MergeQueue, budget: &Arc<MemoryBudget>, runtime: &Runtime) {
    while let Some(waiting) = queue.take() {
        let Some(table) = waiting.table.upgrade() else { continue };
        let began = Instant::now();
        let memory = QueryMemory::new(budget, format!("merge of {}", table.full_name()));
        let memory: Arc<dyn MemoryPool> = Arc::new(memory);
        let merged = runtime.block_on(merge(queue, &table, &memory));
        match merged {
            Ok(Merged::Done) => queue.note(&table),
            Ok(Merged::Nothing | Merged::Stopped) | Err(SqlError::Dropped { .. }) => {}
            Ok(Merged::Conflict) => queue.retry(waiting),
            Err(error) => {
                table.merged().failed();
                let table = table.full_name();
                tracing::warn!(table, %error, "small chunks stay as they are for now");
                queue.retry(waiting);
            }
        }
        // Dropping these may free space, which takes time.
        drop((table, memory));
        queue.rest(began.elapsed());
    }
}

/// Runs one merge, which ends early if the thread is stopped while it waits for the table's
/// writers.
async fn merge(
    queue: &MergeQueue,
    table: &Arc<Table>,
    memory: &Arc<dyn MemoryPool>,
) -> Result<Merged, SqlError> {
    let merge = std::pin::pin!(table.merge_some(memory, || queue.is_stopped()));
    let stopped = std::pin::pin!(queue.0.stopped.notified());
    match select(merge, stopped).await {
        Either::Left((merged, _)) => merged,
        // A commit that began runs to its end; a chunk that is being written is dropped afterwards.
        Either::Right(_) => Ok(Merged::Stopped),
    }
}

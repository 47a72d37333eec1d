//! The thread that merges small chunks, and the tables that wait for it.
//!
//! A commit that leaves chunks worth a merge puts its table in the queue. The thread takes tables
//! out of it a moment later, so that more chunks come together, one at a time, and rests after each
//! merge for as long as it took: queries keep at least half of the machine and the device. A merge
//! that fails is tried again after a pause that doubles.
//!
//! Memory of a merge is that of any statement which writes: a consumer of the ledger by name, which
//! takes what is free and writes a chunk early where nothing is.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use futures::future::{Either, select};
use terrace_exec::aside;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use super::merge::Merged;
use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::memory::{MemoryBudget, QueryMemory};
use crate::table::Table;

/// How long a table waits for more chunks before a merge.
const GATHER: Duration = Duration::from_millis(100);
/// The pause after a merge that did not come to its end: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
/// The longest rest after a merge.
const REST_MAX: Duration = Duration::from_secs(1);

/// A table that waits.
struct Waiting {
    table: Weak<Table>,
    id: u64,
    due: Instant,
    /// Of the last merge that did not come to its end.
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

/// The tables with chunks to be merged. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct MergeQueue(Arc<Shared>);

impl MergeQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a table in the queue if it has chunks worth a merge and is not there.
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

    /// Takes the table that is due, and waits until one is; none at the end.
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

    /// Puts a table back whose merge did not come to its end.
    fn retry(&self, mut waiting: Waiting) {
        waiting.pause = (2 * waiting.pause).clamp(PAUSE.0, PAUSE.1);
        waiting.due = Instant::now() + waiting.pause;
        let mut queue = self.queue();
        // A commit may have put it there meanwhile.
        queue.waiting.retain(|other| other.id != waiting.id);
        queue.waiting.push(waiting);
    }

    /// Waits for as long as the last merge took, unless the end comes first.
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

/// The thread that merges. It ends with this.
pub(crate) struct Merger {
    queue: MergeQueue,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Merger {
    /// Starts the thread over the tables of `catalog`, of which those with many small chunks are
    /// merged soon.
    ///
    /// # Errors
    /// When the system has no thread.
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

    /// Ends the thread, and gives up the merge that it is at.
    pub(crate) fn stop(&self) {
        self.queue.queue().is_stopped = true;
        self.queue.0.rung.notify_all();
        self.queue.0.stopped.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // One that panicked has said so.
            let _ = aside(|| thread.join());
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

/// The life of the thread.
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
        // What is dropped here may give space back, and so takes its time.
        drop((table, memory));
        queue.rest(began.elapsed());
    }
}

/// One merge, which ends early when the thread is stopped while it waits for the table's writers.
async fn merge(
    queue: &MergeQueue,
    table: &Arc<Table>,
    memory: &Arc<dyn MemoryPool>,
) -> Result<Merged, SqlError> {
    let merge = std::pin::pin!(table.merge_some(memory, || queue.is_stopped()));
    let stopped = std::pin::pin!(queue.0.stopped.notified());
    match select(merge, stopped).await {
        Either::Left((merged, _)) => merged,
        // A commit that began runs to its end; a chunk that is written is dropped after that.
        Either::Right(_) => Ok(Merged::Stopped),
    }
}

//! Background thread that merges small chunks.
//!
//! A commit that leaves chunks worth a merge puts its table in the queue. The thread takes tables
//! out of it one at a time, after a short delay so that more chunks come together, and pauses after
//! each merge for as long as it took, but at most a second. While transactions are open the delay
//! is up to two seconds, since a merge between the first read of a transaction and its first change
//! of the table is a conflict. A failed merge is retried after a back-off that doubles.
//!
//! A merge takes memory like any write statement: as a named consumer of the ledger, which takes
//! what is free and writes a chunk early if nothing is.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use datafusion::execution::memory_pool::MemoryPool;
use futures::future::{Either, select};
use terrace_exec::run_blocking;
use terrace_sys::sync::lock;
use tokio::runtime::{Builder, Runtime};

use super::merge_queue::{MergeQueue, Mergeable, Merged};
use crate::catalog::Catalog;
use crate::error::SqlError;
use terrace_governor::memory::{MemoryBudget, QueryMemoryPool};

/// Handle of the merge thread; dropping it stops the thread.
pub struct Merger {
    queue: MergeQueue,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Merger {
    /// Starts the thread over the tables of `catalog`, and queues those with chunks worth a merge.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn start(catalog: &Catalog, budget: &Arc<MemoryBudget>) -> std::io::Result<Self> {
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
    pub fn stop(&self) {
        self.queue.stop();
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
        let Some(table) = waiting.table() else { continue };
        let Some(waiting) = queue.defer(waiting, table.as_ref()) else { continue };
        let began = Instant::now();
        let memory = QueryMemoryPool::new(budget, format!("merge of {}", table.full_name()));
        let memory: Arc<dyn MemoryPool> = Arc::new(memory);
        let merged = runtime.block_on(merge(queue, &table, &memory));
        match merged {
            Ok(Merged::Done) => queue.note_any(&table),
            Ok(Merged::Nothing | Merged::Stopped) | Err(SqlError::Dropped { .. }) => {}
            Ok(Merged::Conflict) => queue.retry(waiting),
            Err(error) => {
                table.count_failure();
                let table = table.full_name();
                tracing::warn!(table, %error, "a merge of chunks failed and is tried again");
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
    table: &Arc<dyn Mergeable>,
    memory: &Arc<dyn MemoryPool>,
) -> Result<Merged, SqlError> {
    let is_stopped = || queue.is_stopped();
    let merge = Arc::clone(table).merge(memory, &is_stopped);
    let stopped = std::pin::pin!(queue.stopped());
    match select(merge, stopped).await {
        Either::Left((merged, _)) => merged,
        // A commit that began runs to its end; a chunk that is being written is dropped afterwards.
        Either::Right(_) => Ok(Merged::Stopped),
    }
}

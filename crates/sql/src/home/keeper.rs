//! The thread that keeps segments where they were wished to be.
//!
//! It looks every second: at tables with wishes, for segments that were written since, and at those
//! whose home the engine decides on. What it cannot do it tries again.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::executor::block_on;
use terrace_sys::size::MIB;

use super::auto::{Candidate, plan};
use super::{Heaps, NamedHeap, Scope, Target, Wish, move_table};
use crate::catalog::Catalog;
use crate::chunk::Chunk;
use crate::memory::MemoryBudget;
use crate::pins::PagePins;
use crate::table::Table;

/// How often it looks.
const ROUND: Duration = Duration::from_secs(1);
/// Bytes that the engine moves by itself in a round, at most.
const MOVED_BYTES_MAX: u64 = 256 * MIB;

/// What the thread works on.
pub(crate) struct Parts {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) heaps: Arc<Heaps>,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) pins: Arc<PagePins>,
}

#[derive(Default)]
struct Bell {
    ended: Mutex<bool>,
    rung: Condvar,
}

/// The thread; it ends with this.
pub(crate) struct Keeper {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has none.
    pub(crate) fn start(parts: Parts) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let own = Arc::clone(&bell);
        let thread =
            std::thread::Builder::new().name("terrace-homes".to_owned()).spawn(move || {
                while own.waits() {
                    parts.round()
                }
            })?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Bell {
    /// Waits for the next round; false at the end.
    fn waits(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rung.wait_timeout_while(ended, ROUND, |ended| !*ended);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.bell.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper")
    }
}

/// A segment whose home the engine decides on.
struct Own {
    table: Arc<Table>,
    chunk: Arc<Chunk>,
    column: usize,
}

impl Parts {
    fn round(&self) {
        let catalog = &self.catalog;
        let tables = catalog.schemas().into_iter().flat_map(|schema| catalog.tables(&schema));
        let mut own = Vec::new();
        for table in tables {
            for (column, wish) in table.wishes().all() {
                match wish {
                    Wish::There(target) => self.move_to(&table, column, None, &target),
                    Wish::Auto => own.extend(table.snapshot().chunks.iter().map(|chunk| Own {
                        table: Arc::clone(&table),
                        chunk: Arc::clone(chunk),
                        column,
                    })),
                }
            }
        }
        self.decide(&own);
    }

    /// Moves what may live in any heap.
    fn decide(&self, own: &[Own]) {
        let mut heaps = self.heaps.all();
        heaps.retain(|heap| heap.is_memory());
        heaps.sort_by_key(|heap| !heap.is_dram());
        // An allocator does not fill its range to the last byte.
        let room = |heap: &Arc<NamedHeap>| terrace_sys::size::to_u64(heap.heap().addresses().1);
        let rooms: Vec<u64> = heaps.iter().map(|heap| room(heap) / 10 * 9).collect();
        let candidates: Vec<Candidate> = own
            .iter()
            .map(|Own { chunk, column, .. }| {
                let segment = &chunk.columns[*column];
                let copied = segment.home.copied();
                let at = copied.and_then(|copied| {
                    heaps.iter().position(|heap| Arc::ptr_eq(heap, &copied.heap))
                });
                Candidate { reads: segment.home.reads_lately(), bytes: segment.len_bytes, at }
            })
            .collect();
        let homes = plan(&candidates, &rooms);
        let changes = || candidates.iter().zip(&homes).zip(own).filter(|((c, to), _)| c.at != **to);
        // Those that leave make room for those that come.
        for ((_, _), own) in changes().filter(|((_, to), _)| to.is_none()) {
            self.move_to(&own.table, own.column, Some(own.chunk.id), &Target::Pool);
        }
        let mut moved = 0;
        for ((candidate, to), own) in changes() {
            let Some(heap) = to.and_then(|to| heaps.get(to)) else { continue };
            moved += candidate.bytes;
            if moved > MOVED_BYTES_MAX {
                return;
            }
            let target = Target::Heap(Arc::clone(heap));
            self.move_to(&own.table, own.column, Some(own.chunk.id), &target);
        }
    }

    fn move_to(&self, table: &Table, column: usize, chunk: Option<u64>, target: &Target) {
        let scope = Scope { column: Some(column), chunk };
        let moved = block_on(move_table(table, &scope, target, (&self.budget, &self.pins)));
        if let Err(error) = moved {
            let (table, column) = (table.full_name(), table.schema().field(column).name());
            tracing::debug!(table, column, %error, "segments stay where they are for now");
        }
    }
}

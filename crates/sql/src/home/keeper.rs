//! The thread that keeps segments where they were wished to be.
//!
//! It looks every second: at tables with wishes, for segments that were written since, and at those
//! whose home the engine decides on. What it cannot do it tries again.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::executor::block_on;
use terrace_exec::aside;
use terrace_sys::size::{MIB, to_u64};

use super::auto::{Candidate, plan};
use super::moves::move_segment;
use super::{Heaps, NamedHeap, Target, Wish};
use crate::catalog::Catalog;
use crate::chunk::{Chunk, ColumnSegment};
use crate::memory::MemoryBudget;
use crate::pins::PagePins;
use crate::table::Table;

/// How often it looks.
const ROUND: Duration = Duration::from_secs(1);
/// How often at the least, where a heap has no room.
const PAUSE_MAX: Duration = Duration::from_secs(30);
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
        let keep = move || {
            let mut pause = ROUND;
            while own.waits(pause) {
                // What does not fit costs a copy each time it is tried.
                let is_full = parts.round(&own);
                pause = if is_full { (2 * pause).min(PAUSE_MAX) } else { ROUND };
            }
        };
        let thread = std::thread::Builder::new().name("terrace-homes".to_owned()).spawn(keep)?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Bell {
    /// Waits for the next round; false at the end.
    fn waits(&self, pause: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rung.wait_timeout_while(ended, pause, |ended| !*ended);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn has_ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.bell.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so; one that copies a segment ends after it.
            let _ = aside(|| thread.join());
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

impl Own {
    fn segment(&self) -> &ColumnSegment {
        &self.chunk.columns[self.column]
    }
}

/// One look at all tables.
struct Round<'a> {
    parts: &'a Parts,
    bell: &'a Bell,
    left_bytes: u64,
    /// Something could not be moved, for want of room mostly.
    is_full: bool,
}

impl Parts {
    /// One look; whether a heap had no room for something.
    fn round(&self, bell: &Bell) -> bool {
        let mut round = Round { parts: self, bell, left_bytes: MOVED_BYTES_MAX, is_full: false };
        round.run();
        round.is_full
    }
}

impl Round<'_> {
    fn run(&mut self) {
        let catalog = &self.parts.catalog;
        let tables = catalog.schemas().into_iter().flat_map(|schema| catalog.tables(&schema));
        let mut own = Vec::new();
        for table in tables.filter(|table| !table.wishes().is_empty()) {
            let version = table.snapshot();
            table.wishes().tidy(&version);
            for chunk in &version.chunks {
                for column in 0..chunk.columns.len() {
                    let (table, chunk) = (Arc::clone(&table), Arc::clone(chunk));
                    let wish = table.wishes().of(chunk.id, column);
                    let segment = Own { table, chunk, column };
                    match wish {
                        Some(Wish::There(target)) => self.put(&segment, &target),
                        Some(Wish::Auto) => own.push(segment),
                        None => {}
                    }
                }
            }
        }
        self.decide(&own);
        // Without a call nobody looks whether freed pages have been kept long enough.
        self.parts.heaps.all().iter().for_each(|heap| heap.heap().decay());
    }

    /// Moves what may live in any heap.
    fn decide(&mut self, own: &[Own]) {
        if own.is_empty() {
            return;
        }
        let mut heaps = self.parts.heaps.all();
        heaps.retain(|heap| heap.is_memory());
        heaps.sort_by_key(|heap| !heap.is_dram());
        let at = |own: &Own| {
            let copied = own.segment().home.copied()?;
            heaps.iter().position(|heap| Arc::ptr_eq(heap, &copied.heap))
        };
        let candidates: Vec<Candidate> = own
            .iter()
            .map(|own| {
                let (reads, bytes) = (own.segment().home.reads_lately(), own.segment().len_bytes);
                Candidate { reads, bytes, at: at(own) }
            })
            .collect();
        let room = |(place, heap): (usize, &Arc<NamedHeap>)| {
            let ours = candidates.iter().filter(|candidate| candidate.at == Some(place));
            room(heap, ours.map(|candidate| candidate.bytes).sum())
        };
        let homes = plan(&candidates, &heaps.iter().enumerate().map(room).collect::<Vec<_>>());
        // Those that leave make room for those that come.
        for (own, _) in own.iter().zip(&homes).filter(|(_, to)| to.is_none()) {
            self.put(own, &Target::Pool);
        }
        for (own, to) in own.iter().zip(homes) {
            if let Some(heap) = to.and_then(|to| heaps.get(to)) {
                self.put(own, &Target::Heap(Arc::clone(heap)));
            }
        }
    }

    /// Moves a segment, if it is elsewhere and nobody else moves the table.
    fn put(&mut self, own: &Own, target: &Target) {
        let bytes = own.segment().len_bytes;
        if self.bell.has_ended() || self.left_bytes < bytes {
            return;
        }
        let Some(_moving) = own.table.wishes().try_lock() else { return };
        let parts = (&*self.parts.budget, &self.parts.pins);
        match block_on(move_segment(&own.chunk, own.column, target, parts)) {
            Ok(true) => self.left_bytes -= bytes,
            Ok(false) => {}
            Err(error) => {
                self.is_full = true;
                let table = own.table.full_name();
                tracing::debug!(table, own.column, %error, "a segment stays where it is");
            }
        }
    }
}

/// Bytes that a heap has for segments whose home the engine decides on, of which it has some. An
/// allocator does not fill its range to the last byte.
fn room(heap: &NamedHeap, ours: u64) -> u64 {
    let all = to_u64(heap.heap().addresses().1) / 10 * 9;
    let held = heap.heap().stats().map_or(0, |stats| stats.small_bytes + stats.large_bytes);
    all.saturating_sub(held.saturating_sub(ours))
}

//! Moves segments of a table to a heap, or back to the pool alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace_exec::aside;
use terrace_heap::HeapError;
use terrace_sys::size::MIB;

use super::{Copied, NamedHeap};
use crate::chunk::{Chunk, ColumnSegment};
use crate::error::SqlError;
use crate::memory::MemoryBudget;
use crate::pins::PagePins;
use crate::table::Table;

/// DRAM that a heap takes at a time, at the least.
const TAKEN_BYTES_MIN: u64 = 8 * MIB;
/// Times that the pool is asked to make room for one segment.
const ROOM_TRIES: usize = 4;

/// Which segments of a table are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// One column by its place, or all.
    pub(crate) column: Option<usize>,
    /// One chunk by its number, or all, those of the future included.
    pub(crate) chunk: Option<u64>,
}

impl Scope {
    fn has(&self, chunk: &Chunk, column: usize) -> bool {
        self.chunk.is_none_or(|id| id == chunk.id) && self.column.is_none_or(|own| own == column)
    }
}

/// Where segments are to live.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Pool,
    Heap(Arc<NamedHeap>),
}

impl Target {
    fn is(&self, other: Option<&Copied>) -> bool {
        match (self, other) {
            (Self::Pool, None) => true,
            (Self::Heap(heap), Some(copied)) => Arc::ptr_eq(heap, &copied.heap),
            _ => false,
        }
    }
}

/// What was said of a column's segments.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// They live there, also those that are written later.
    There(Target),
    /// The engine decides by how often they are read.
    Auto,
}

/// What was said of the columns of a table, by place.
#[derive(Debug, Default)]
pub(crate) struct Wishes(Mutex<BTreeMap<usize, Wish>>);

impl Wishes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Wish>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what was said of a column, or of all of them.
    pub(crate) fn set(&self, columns: usize, column: Option<usize>, wish: &Wish) {
        let mut wishes = self.lock();
        let all = column.map_or(0..columns, |column| column..column + 1);
        wishes.extend(all.map(|column| (column, wish.clone())));
    }

    /// What was said, by column.
    pub(crate) fn all(&self) -> Vec<(usize, Wish)> {
        self.lock().iter().map(|(column, wish)| (*column, wish.clone())).collect()
    }

    /// Nobody wants this heap any more.
    pub(crate) fn forget(&self, heap: &Arc<NamedHeap>) {
        let wants = |wish: &Wish| match wish {
            Wish::There(Target::Heap(wanted)) => Arc::ptr_eq(wanted, heap),
            _ => false,
        };
        self.lock().retain(|_, wish| !wants(wish));
    }
}

/// Moves the segments of a table that are meant, all of them or none. Those that scans read are
/// read to their end where they were.
///
/// # Errors
/// [`SqlError::Heap`] when there is no room; those of reading.
pub(crate) async fn move_table(
    table: &Table,
    scope: &Scope,
    target: &Target,
    (budget, pins): (&MemoryBudget, &Arc<PagePins>),
) -> Result<u64, SqlError> {
    let version = table.current()?;
    let mut moved = Vec::new();
    for chunk in &version.chunks {
        for (column, segment) in chunk.columns.iter().enumerate() {
            if scope.has(chunk, column) && !target.is(segment.home.copied().as_deref()) {
                let copy = match target {
                    Target::Pool => None,
                    Target::Heap(heap) => Some(copied(chunk, segment, heap, budget, pins).await?),
                };
                moved.push((Arc::clone(chunk), column, copy));
            }
        }
    }
    let bytes = moved.iter().map(|(chunk, column, _)| chunk.columns[*column].len_bytes).sum();
    aside(|| {
        for (chunk, column, copy) in moved {
            chunk.columns[column].home.switch(copy);
        }
    });
    Ok(bytes)
}

/// A copy of a segment in a heap, which no reader knows yet.
async fn copied(
    chunk: &Chunk,
    segment: &ColumnSegment,
    heap: &Arc<NamedHeap>,
    budget: &MemoryBudget,
    pins: &Arc<PagePins>,
) -> Result<Arc<Copied>, SqlError> {
    if let Some(copied) = segment.home.copied() {
        return Ok(Arc::new(aside(|| write(heap, copied.bytes.as_ref(), budget))?));
    }
    let mut room = pins.reserve_for_a_copy(segment.stored.extent.len_bytes);
    let fetched = chunk.space().fetch_needed(&[segment.page]).await?;
    let page = fetched.into_iter().next();
    let page = page.ok_or_else(|| SqlError::Task("a fetch of one page gave none".to_owned()))?;
    let page = room.pin(page);
    Ok(Arc::new(aside(|| write(heap, page.as_ref(), budget))?))
}

/// Writes a segment to a heap; one in DRAM gets what the pool can spare.
fn write(heap: &Arc<NamedHeap>, bytes: &[u8], budget: &MemoryBudget) -> Result<Copied, HeapError> {
    let need = TAKEN_BYTES_MIN.max(2 * terrace_sys::size::to_u64(bytes.len()));
    for _ in 0..ROOM_TRIES {
        match Copied::new(heap, bytes) {
            Err(HeapError::NoRoom { .. }) if heap.is_dram() && budget.reclaim(need, true) => {}
            done => return done,
        }
    }
    Copied::new(heap, bytes)
}

//! Moves segments of a table to a heap, or back to the pool alone.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockReadGuard};

use terrace_exec::aside;
use terrace_heap::HeapError;
use terrace_sys::size::{MIB, to_u64};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncGuard};

use super::{Copied, NamedHeap};
use crate::chunk::{Chunk, ColumnSegment};
use crate::error::SqlError;
use crate::memory::MemoryBudget;
use crate::pins::PagePins;
use crate::table::{Table, TableVersion};

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

    /// Keeps its heap from being dropped, which waits for this, and then sees what is in it.
    fn stay(&self) -> Result<Option<RwLockReadGuard<'_, bool>>, SqlError> {
        let Self::Heap(heap) = self else { return Ok(None) };
        let (name, known) = (heap.name().to_owned(), "pool".to_owned());
        heap.stay().ok_or(SqlError::MissingHeap { name, known }).map(Some)
    }

    /// What a segment has there besides its page.
    async fn copy(
        &self,
        chunk: &Chunk,
        segment: &ColumnSegment,
        (budget, pins): (&MemoryBudget, &Arc<PagePins>),
    ) -> Result<Option<Arc<Copied>>, SqlError> {
        match self {
            Self::Pool => Ok(None),
            Self::Heap(heap) => copied(chunk, segment, heap, budget, pins).await.map(Some),
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

impl Wish {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::There(Target::Heap(one)), Self::There(Target::Heap(two))) => {
                Arc::ptr_eq(one, two)
            }
            (Self::There(Target::Pool), Self::There(Target::Pool)) | (Self::Auto, Self::Auto) => {
                true
            }
            _ => false,
        }
    }
}

/// What was said of the segments of a table.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// By column, and chunk where it was said of one.
    said: Mutex<BTreeMap<(usize, Option<u64>), Wish>>,
    /// Held while segments of the table are moved and what was said is written down.
    moving: AsyncMutex<()>,
}

impl Wishes {
    fn said(&self) -> MutexGuard<'_, BTreeMap<(usize, Option<u64>), Wish>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for others who move segments of the table.
    pub(crate) async fn lock(&self) -> AsyncGuard<'_, ()> {
        self.moving.lock().await
    }

    /// As [`Wishes::lock`], or none while others do.
    pub(super) fn try_lock(&self) -> Option<AsyncGuard<'_, ()>> {
        self.moving.try_lock().ok()
    }

    /// Whether anything was said.
    pub(super) fn is_empty(&self) -> bool {
        self.said().is_empty()
    }

    /// Writes down what was said. What is said of all chunks holds for each, whatever was said of
    /// it before. In the pool they are without anybody's word.
    pub(crate) fn set(&self, columns: usize, scope: &Scope, wish: &Wish) {
        let mut said = self.said();
        for column in scope.column.map_or(0..columns, |column| column..column + 1) {
            if scope.chunk.is_none() {
                said.retain(|(other, _), _| *other != column);
            }
            if scope.chunk.is_some() || !matches!(wish, Wish::There(Target::Pool)) {
                said.insert((column, scope.chunk), wish.clone());
            }
        }
    }

    /// The chunks of which something was said that does not hold for all.
    pub(crate) fn chunks(&self) -> HashSet<u64> {
        self.said().keys().filter_map(|(_, chunk)| *chunk).collect()
    }

    /// What was said of a segment, of its column if not of itself.
    pub(super) fn of(&self, chunk: u64, column: usize) -> Option<Wish> {
        let said = self.said();
        said.get(&(column, Some(chunk))).or_else(|| said.get(&(column, None))).cloned()
    }

    /// Whether this is what holds for a segment.
    pub(super) fn says(&self, chunk: u64, column: usize, wish: &Wish) -> bool {
        self.of(chunk, column).is_some_and(|said| said.is(wish))
    }

    /// Chunks that are no more, and heaps that were dropped, are nobody's wish.
    pub(super) fn tidy(&self, version: &TableVersion) {
        let mut said = self.said();
        let ids = match said.keys().any(|(_, chunk)| chunk.is_some()) {
            true => version.chunks.iter().map(|chunk| chunk.id).collect(),
            false => HashSet::new(),
        };
        let lives = |id: &u64| ids.contains(id);
        let is_dropped = |wish: &Wish| match wish {
            Wish::There(Target::Heap(heap)) => heap.is_dropped(),
            _ => false,
        };
        said.retain(|(_, chunk), wish| chunk.as_ref().is_none_or(lives) && !is_dropped(wish));
    }
}

/// Moves the segments of a table that are meant, all of them or none. Those that scans read are
/// read to their end where they were.
///
/// # Errors
/// [`SqlError::Heap`] when there is no room, [`SqlError::MissingHeap`] when the heap is dropped
/// meanwhile; those of reading.
pub(crate) async fn move_table(
    table: &Table,
    scope: &Scope,
    target: &Target,
    parts: (&MemoryBudget, &Arc<PagePins>),
) -> Result<(), SqlError> {
    let version = table.current()?;
    let mut moved = Vec::new();
    for (chunk, column) in version.segments_by_column() {
        let segment = &chunk.columns[column];
        if scope.has(chunk, column) && !target.is(segment.home.copied().as_deref()) {
            moved.push((segment, target.copy(chunk, segment, parts).await?));
        }
    }
    aside(|| {
        let _stays = target.stay()?;
        moved.into_iter().for_each(|(segment, copy)| segment.home.switch(copy));
        Ok(())
    })
}

/// What was read of segments that are meant counts no more.
pub(crate) fn forget_reads(version: &TableVersion, scope: &Scope) {
    for (chunk, column) in version.segments_by_column() {
        if scope.has(chunk, column) {
            chunk.columns[column].home.forget_reads();
        }
    }
}

/// Moves one segment; false where it is there already.
pub(super) async fn move_segment(
    chunk: &Chunk,
    column: usize,
    target: &Target,
    parts: (&MemoryBudget, &Arc<PagePins>),
) -> Result<bool, SqlError> {
    let segment = &chunk.columns[column];
    if target.is(segment.home.copied().as_deref()) {
        return Ok(false);
    }
    let copy = target.copy(chunk, segment, parts).await?;
    let _stays = target.stay()?;
    segment.home.switch(copy);
    Ok(true)
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

/// Writes a segment to a heap, which gets what the pool can spare of DRAM.
fn write(heap: &Arc<NamedHeap>, bytes: &[u8], budget: &MemoryBudget) -> Result<Copied, HeapError> {
    let need = TAKEN_BYTES_MIN.max(2 * to_u64(bytes.len()));
    let lacks = heap.lacks();
    if lacks > 0 {
        budget.make_room(lacks.min(need));
    }
    for _ in 0..ROOM_TRIES {
        match Copied::new(heap, bytes) {
            // The range may be what is full: then the budget is not asked.
            Err(HeapError::NoRoom { .. })
                if heap.is_dram()
                    && budget.ledger().available() < need
                    && budget.reclaim(need, true) => {}
            done => return done,
        }
    }
    Copied::new(heap, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::DEFAULT_SCHEMA;
    use crate::engine::{Engine, EngineConfig};

    /// From most chunks to the next a column goes on right behind, or nearly: the heap fills a
    /// hole here and there.
    fn assert_columns_lie_together(version: &TableVersion) {
        let chunks = version.chunks.len();
        assert!(chunks > 10, "a table of {chunks} chunks");
        for column in 0..version.schema().fields().len() {
            let bytes_of = |chunk: &Arc<Chunk>| {
                let copied = chunk.columns[column].home.copied().expect("it is in the heap");
                copied.bytes.as_ref().as_ptr_range()
            };
            let places: Vec<_> = version.chunks.iter().map(bytes_of).collect();
            let near = places.windows(2).filter(|pair| {
                let gap = pair[1].start.addr().abs_diff(pair[0].end.addr());
                gap < pair[0].end.addr() - pair[0].start.addr()
            });
            let near = near.count();
            assert!(near + 4 > chunks, "column {column}, {near} near: {places:?}");
        }
    }

    #[test]
    fn a_wish_holds_until_another_one_is_said() {
        let (wishes, pool) = (Wishes::default(), Wish::There(Target::Pool));
        wishes.set(2, &Scope::default(), &Wish::Auto);
        assert!(wishes.says(7, 1, &Wish::Auto) && !wishes.says(7, 1, &pool));
        wishes.set(2, &Scope { column: Some(1), chunk: Some(7) }, &pool);
        assert!(wishes.says(7, 1, &pool) && wishes.says(8, 1, &Wish::Auto));
        wishes.set(2, &Scope::default(), &pool);
        assert!(wishes.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn segments_of_a_column_lie_together() {
        let engine = Engine::open(&EngineConfig::new(256 << 20)).expect("engine");
        let session = engine.session().expect("session");
        let texts = [
            "CREATE HEAP asked WITH (size = '128MiB')",
            "CREATE TABLE t WITH (encoding = 'plain') AS SELECT value AS a, value + 1 AS b, \
             value + 2 AS c, value + 3 AS d FROM generate_series(1, 1000000)",
            "ALTER TABLE t SET TIER asked",
        ];
        for text in texts {
            session.sql(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let table = engine.catalog().table(DEFAULT_SCHEMA, "t").expect("a table");
        assert_columns_lie_together(&table.snapshot());
    }
}

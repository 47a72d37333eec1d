//! Migration of a table's segments to a heap, or back to the pool.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, RwLockReadGuard};

use terrace_exec::run_blocking;
use terrace_heap::HeapError;
use terrace_sys::size::{MIB, to_u64};
use terrace_sys::sync::lock;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncGuard};

use super::{Copied, NamedHeap};
use crate::chunk::{Chunk, ColumnSegment};
use crate::error::SqlError;
use crate::memory::MemoryBudget;
use crate::pins::PagePins;
use crate::table::{Table, TableVersion};

/// Minimum DRAM that is freed for a heap at a time.
const TAKEN_BYTES_MIN: u64 = 8 * MIB;
/// Number of times that the pool is asked to make room for one segment.
const ROOM_TRIES: usize = 4;

/// The segments of a table that a placement applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Index of one column, or `None` for all.
    pub(crate) column: Option<usize>,
    /// Id of one chunk, or `None` for all, including future ones.
    pub(crate) chunk: Option<u64>,
}

impl Scope {
    fn has(&self, chunk: &Chunk, column: usize) -> bool {
        self.chunk.is_none_or(|id| id == chunk.id) && self.column.is_none_or(|own| own == column)
    }
}

/// Destination of a placement.
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

    /// Keeps the heap from being dropped while the guard lives; a drop that waits for the guard
    /// then finds what was moved to the heap.
    fn stay(&self) -> Result<Option<RwLockReadGuard<'_, bool>>, SqlError> {
        let Self::Heap(heap) = self else { return Ok(None) };
        let (name, known) = (heap.name().to_owned(), "pool".to_owned());
        heap.stay().ok_or(SqlError::MissingHeap { name, known }).map(Some)
    }

    /// Copies a segment to the target, if that is a heap.
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

/// Requested placement of a column's segments.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// Always in this target, including segments that are written later.
    There(Target),
    /// Chosen by the engine from the segments' read counts.
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

/// Requested placements of the segments of a table.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Requests by column, and by chunk if made for a single chunk.
    said: Mutex<BTreeMap<(usize, Option<u64>), Wish>>,
    /// Held while segments of the table are moved and the request is recorded.
    moving: AsyncMutex<()>,
}

impl Wishes {
    fn said(&self) -> MutexGuard<'_, BTreeMap<(usize, Option<u64>), Wish>> {
        lock(&self.said)
    }

    /// Waits for other migrations of the table's segments.
    pub(crate) async fn lock(&self) -> AsyncGuard<'_, ()> {
        self.moving.lock().await
    }

    /// Locks as [`Wishes::lock`] does; returns `None` if another migration holds the lock.
    pub(super) fn try_lock(&self) -> Option<AsyncGuard<'_, ()>> {
        self.moving.try_lock().ok()
    }

    /// Returns true if no placement was requested.
    pub(super) fn is_empty(&self) -> bool {
        self.said().is_empty()
    }

    /// Records a request. A request for all chunks replaces earlier ones for single chunks. The
    /// pool is the default placement, so a request for it alone is not stored.
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

    /// Returns the chunks that have a request of their own.
    pub(crate) fn chunks(&self) -> HashSet<u64> {
        self.said().keys().filter_map(|(_, chunk)| *chunk).collect()
    }

    /// Returns the request for a segment: its own, or else that of its column.
    pub(super) fn of(&self, chunk: u64, column: usize) -> Option<Wish> {
        let said = self.said();
        said.get(&(column, Some(chunk))).or_else(|| said.get(&(column, None))).cloned()
    }

    /// Returns true if this request is in force for a segment.
    pub(super) fn says(&self, chunk: u64, column: usize, wish: &Wish) -> bool {
        self.of(chunk, column).is_some_and(|said| said.is(wish))
    }

    /// Removes requests for chunks that no longer exist and for heaps that were dropped.
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

/// Moves the segments of a table in `scope`, all of them or none. Scans that read a segment at its
/// previous location finish reading it there.
///
/// # Errors
/// [`SqlError::Heap`] if there is no room, [`SqlError::MissingHeap`] if the heap is dropped
/// meanwhile; errors of reading.
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
    run_blocking(|| {
        let _stays = target.stay()?;
        moved.into_iter().for_each(|(segment, copy)| segment.home.switch(copy));
        Ok(())
    })
}

/// Resets the read counts of the segments in `scope`.
pub(crate) fn forget_reads(version: &TableVersion, scope: &Scope) {
    for (chunk, column) in version.segments_by_column() {
        if scope.has(chunk, column) {
            chunk.columns[column].home.forget_reads();
        }
    }
}

/// Moves one segment; false if it is there already.
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

/// Copies a segment to a heap, without publishing the copy to readers.
async fn copied(
    chunk: &Chunk,
    segment: &ColumnSegment,
    heap: &Arc<NamedHeap>,
    budget: &MemoryBudget,
    pins: &Arc<PagePins>,
) -> Result<Arc<Copied>, SqlError> {
    if let Some(copied) = segment.home.copied() {
        return Ok(Arc::new(run_blocking(|| write(heap, copied.bytes.as_ref(), budget))?));
    }
    let mut room = pins.reserve_for_a_copy(segment.stored.extent.len_bytes);
    let fetched = chunk.space().fetch_needed(&[segment.page]).await?;
    let page = fetched.into_iter().next();
    let page = page.ok_or_else(|| SqlError::Task("a fetch of one page gave none".to_owned()))?;
    let page = room.pin(page);
    Ok(Arc::new(run_blocking(|| write(heap, page.as_ref(), budget))?))
}

/// Writes a segment to a heap, after making room in DRAM for it as far as the pool can.
fn write(heap: &Arc<NamedHeap>, bytes: &[u8], budget: &MemoryBudget) -> Result<Copied, HeapError> {
    let need = TAKEN_BYTES_MIN.max(2 * to_u64(bytes.len()));
    let lacks = heap.lacks();
    if lacks > 0 {
        budget.make_room(lacks.min(need));
    }
    for _ in 0..ROOM_TRIES {
        match Copied::new(heap, bytes) {
            // The heap's range itself may be full; then reclaiming from the budget would not help.
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

    /// Asserts that from most chunks to the next a column continues right behind, or nearly so: the
    /// heap fills some holes.
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

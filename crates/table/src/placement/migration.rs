//! Migration of a table's segments to a heap, or back to the pool.

use std::sync::Arc;

use terrace_exec::run_blocking;
use terrace_heap::HeapError;
use terrace_sys::size::{MIB, to_u64};

use super::heaps::NamedHeap;
use super::request::{Scope, Target};
use super::segment_placement::Copied;
use crate::chunk::{Chunk, ColumnSegment};
use crate::error::SqlError;
use crate::table::{Table, TableVersion};
use terrace_governor::memory::MemoryBudget;
use terrace_governor::pins::PagePins;

/// Minimum DRAM that is freed for a heap at a time.
const TAKEN_BYTES_MIN: u64 = 8 * MIB;
/// Number of times that the pool is asked to make room for one segment.
const ROOM_TRIES: usize = 4;

/// Moves the segments of a table in `scope`, all of them or none. Scans that read a segment at its
/// previous location finish reading it there.
///
/// # Errors
/// [`SqlError::Heap`] if there is no room, [`SqlError::MissingHeap`] if the heap is dropped
/// meanwhile; errors of reading.
pub async fn move_table(
    table: &Table,
    scope: &Scope,
    target: &Target,
    parts: (&MemoryBudget, &Arc<PagePins>),
) -> Result<(), SqlError> {
    let version = table.current()?;
    let mut moved = Vec::new();
    for (chunk, column) in version.segments_by_column() {
        let segment = &chunk.columns[column];
        if scope.has(chunk, column) && !target.is(segment.placement.copied().as_deref()) {
            moved.push((segment, copy(target, chunk, segment, parts).await?));
        }
    }
    run_blocking(|| {
        let _stays = target.stay()?;
        moved.into_iter().for_each(|(segment, copy)| segment.placement.switch(copy));
        Ok(())
    })
}

/// Resets the read counts of the segments in `scope`.
pub fn forget_reads(version: &TableVersion, scope: &Scope) {
    for (chunk, column) in version.segments_by_column() {
        if scope.has(chunk, column) {
            chunk.columns[column].placement.forget_reads();
        }
    }
}

/// Moves one segment. Returns false if it is in the target already.
pub(super) async fn move_segment(
    chunk: &Chunk,
    column: usize,
    target: &Target,
    parts: (&MemoryBudget, &Arc<PagePins>),
) -> Result<bool, SqlError> {
    let segment = &chunk.columns[column];
    if target.is(segment.placement.copied().as_deref()) {
        return Ok(false);
    }
    let copy = copy(target, chunk, segment, parts).await?;
    let _stays = target.stay()?;
    segment.placement.switch(copy);
    Ok(true)
}

/// Copies a segment to the target, if that is a heap.
async fn copy(
    target: &Target,
    chunk: &Chunk,
    segment: &ColumnSegment,
    (budget, pins): (&MemoryBudget, &Arc<PagePins>),
) -> Result<Option<Arc<Copied>>, SqlError> {
    match target {
        Target::Pool => Ok(None),
        Target::Heap(heap) => copied(chunk, segment, heap, budget, pins).await.map(Some),
    }
}

/// Copies a segment to a heap, without publishing the copy to readers.
async fn copied(
    chunk: &Chunk,
    segment: &ColumnSegment,
    heap: &Arc<NamedHeap>,
    budget: &MemoryBudget,
    pins: &Arc<PagePins>,
) -> Result<Arc<Copied>, SqlError> {
    if let Some(copied) = segment.placement.copied() {
        return Ok(Arc::new(run_blocking(|| write(heap, copied.as_bytes(), budget))?));
    }
    let Some(stored) = segment.stored() else {
        return Err(SqlError::Task("a value of all rows was to be moved".to_owned()));
    };
    let mut room = pins.reserve_for_a_copy(segment.extent_bytes());
    let fetched = chunk.space().fetch_needed(&[stored.page]).await?;
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

/// Moves every segment that is copied to this heap back to the pool.
pub fn leave(version: &TableVersion, heap: &Arc<NamedHeap>) {
    for segment in version.chunks.iter().flat_map(|chunk| &chunk.columns) {
        segment.placement.leave(heap);
    }
}

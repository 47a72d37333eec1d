//! Requested placements of the segments of a table.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, RwLockReadGuard};

use terrace_sys::sync::lock;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncGuard};

use super::heaps::NamedHeap;
use super::segment_placement::Copied;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::table::TableVersion;

/// The segments of a table that a placement applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Index of one column, or `None` for all.
    pub column: Option<usize>,
    /// Id of one chunk, or `None` for all, including future ones.
    pub chunk: Option<u64>,
}

impl Scope {
    pub(super) fn has(&self, chunk: &Chunk, column: usize) -> bool {
        self.chunk.is_none_or(|id| id == chunk.id) && self.column.is_none_or(|own| own == column)
    }
}

/// Destination of a placement.
#[derive(Clone, Debug)]
pub enum Target {
    /// The pool alone.
    Pool,
    /// A copy in a heap.
    Heap(Arc<NamedHeap>),
}

impl Target {
    pub(super) fn is(&self, other: Option<&Copied>) -> bool {
        match (self, other) {
            (Self::Pool, None) => true,
            (Self::Heap(heap), Some(copied)) => Arc::ptr_eq(heap, copied.heap()),
            _ => false,
        }
    }

    /// Keeps the heap from being dropped while the guard lives; a drop that waits for the guard
    /// then finds what was moved to the heap.
    pub(super) fn stay(&self) -> Result<Option<RwLockReadGuard<'_, bool>>, SqlError> {
        let Self::Heap(heap) = self else { return Ok(None) };
        let (name, known) = (heap.name().to_owned(), "pool".to_owned());
        heap.stay().ok_or(SqlError::MissingHeap { name, known }).map(Some)
    }
}

/// Requested placement of a column's segments.
#[derive(Clone, Debug)]
pub enum PlacementRequest {
    /// Always in this target, including segments that are written later.
    Fixed(Target),
    /// Chosen by the engine from the segments' read counts.
    Auto,
}

impl PlacementRequest {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed(Target::Heap(one)), Self::Fixed(Target::Heap(two))) => {
                Arc::ptr_eq(one, two)
            }
            (Self::Fixed(Target::Pool), Self::Fixed(Target::Pool)) | (Self::Auto, Self::Auto) => {
                true
            }
            _ => false,
        }
    }
}

/// Requested placements of the segments of a table.
#[derive(Debug, Default)]
pub struct PlacementRequests {
    /// Requests by column, and by chunk if made for a single chunk.
    requests: Mutex<BTreeMap<(usize, Option<u64>), PlacementRequest>>,
    /// Held while segments of the table are moved and the request is recorded.
    moving: AsyncMutex<()>,
}

impl PlacementRequests {
    fn requests(&self) -> MutexGuard<'_, BTreeMap<(usize, Option<u64>), PlacementRequest>> {
        lock(&self.requests)
    }

    /// Waits for other migrations of the table's segments.
    pub async fn lock(&self) -> AsyncGuard<'_, ()> {
        self.moving.lock().await
    }

    /// Locks as [`PlacementRequests::lock`] does; returns `None` if another migration holds the
    /// lock.
    pub(super) fn try_lock(&self) -> Option<AsyncGuard<'_, ()>> {
        self.moving.try_lock().ok()
    }

    /// Returns true if no placement was requested.
    pub(super) fn is_empty(&self) -> bool {
        self.requests().is_empty()
    }

    /// Records a request. A request for all chunks replaces earlier ones for single chunks. The
    /// pool is the default placement, so a request for it alone is not stored.
    pub fn set(&self, columns: usize, scope: &Scope, request: &PlacementRequest) {
        let mut requests = self.requests();
        for column in scope.column.map_or(0..columns, |column| column..column + 1) {
            if scope.chunk.is_none() {
                requests.retain(|(other, _), _| *other != column);
            }
            if scope.chunk.is_some() || !matches!(request, PlacementRequest::Fixed(Target::Pool)) {
                requests.insert((column, scope.chunk), request.clone());
            }
        }
    }

    /// Takes over the requests of `before`, the table that ALTER TABLE replaces. `columns` has, for
    /// each column of the new table, the index of that column in the previous one, if it was there.
    pub fn inherit(&self, before: &Self, columns: impl Iterator<Item = Option<usize>>) {
        let (before, mut requests) = (before.requests().clone(), self.requests());
        for (column, index) in columns.enumerate() {
            let own = before.iter().filter(|((place, _), _)| Some(*place) == index);
            requests.extend(own.map(|((_, chunk), request)| ((column, *chunk), request.clone())));
        }
    }

    /// Returns the chunks that have a request of their own.
    pub fn chunks(&self) -> HashSet<u64> {
        self.requests().keys().filter_map(|(_, chunk)| *chunk).collect()
    }

    /// Returns the request for a segment: its own, or else that of its column.
    pub(super) fn of(&self, chunk: u64, column: usize) -> Option<PlacementRequest> {
        let requests = self.requests();
        requests.get(&(column, Some(chunk))).or_else(|| requests.get(&(column, None))).cloned()
    }

    /// Returns true if this request is in force for a segment.
    pub(super) fn matches(&self, chunk: u64, column: usize, request: &PlacementRequest) -> bool {
        self.of(chunk, column).is_some_and(|requests| requests.is(request))
    }

    /// Removes requests for chunks that no longer exist and for heaps that were dropped.
    pub(super) fn tidy(&self, version: &TableVersion) {
        let mut requests = self.requests();
        let ids = match requests.keys().any(|(_, chunk)| chunk.is_some()) {
            true => version.chunks.iter().map(|chunk| chunk.id).collect(),
            false => HashSet::new(),
        };
        let lives = |id: &u64| ids.contains(id);
        let is_dropped = |request: &PlacementRequest| match request {
            PlacementRequest::Fixed(Target::Heap(heap)) => heap.is_dropped(),
            _ => false,
        };
        requests
            .retain(|(_, chunk), request| chunk.as_ref().is_none_or(lives) && !is_dropped(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_holds_until_another_one_is_said() {
        let (requests, pool) =
            (PlacementRequests::default(), PlacementRequest::Fixed(Target::Pool));
        requests.set(2, &Scope::default(), &PlacementRequest::Auto);
        assert!(requests.matches(7, 1, &PlacementRequest::Auto) && !requests.matches(7, 1, &pool));
        requests.set(2, &Scope { column: Some(1), chunk: Some(7) }, &pool);
        assert!(requests.matches(7, 1, &pool) && requests.matches(8, 1, &PlacementRequest::Auto));
        requests.set(2, &Scope::default(), &pool);
        assert!(requests.is_empty());
    }
}

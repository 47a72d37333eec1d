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
pub enum Wish {
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
pub struct Wishes {
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
    pub async fn lock(&self) -> AsyncGuard<'_, ()> {
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
    pub fn set(&self, columns: usize, scope: &Scope, wish: &Wish) {
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

    /// Takes over the requests for a table that is altered. `columns` has, for each column of the
    /// new table, the index of the column that it was.
    pub fn inherit(&self, before: &Self, columns: impl Iterator<Item = Option<usize>>) {
        let (before, mut said) = (before.said().clone(), self.said());
        for (column, index) in columns.enumerate() {
            let own = before.iter().filter(|((place, _), _)| Some(*place) == index);
            said.extend(own.map(|((_, chunk), wish)| ((column, *chunk), wish.clone())));
        }
    }

    /// Returns the chunks that have a request of their own.
    pub fn chunks(&self) -> HashSet<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}

//! Chunks: up to 65,536 rows of one table, immutable, one segment (page and extent) per column, or
//! a value for a column that is the same in all rows.
//!
//! ALTER TABLE makes a new table whose chunks share segments with those of the previous one. A
//! segment counts the chunks that commits name, and frees its space when the last reference to it
//! is dropped and there is no such chunk.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_pool::{PageRef, Space};
use terrace_store::Stored;

use crate::placement::SegmentPlacement;
use crate::segment::{Constant, Encoding, Layout};
use crate::statistics::SegmentStatistics;

/// Maximum number of rows in a chunk.
pub const CHUNK_ROWS: usize = 65_536;
/// Maximum number of rows in a block, which a scan returns as one batch.
pub const BLOCK_ROWS: usize = 8_192;
/// Bytes of a segment: a chunk ends before a block with which one of its segments would exceed
/// them.
pub const SEGMENT_BYTES: usize = 8 << 20;
/// Bytes of all segments of a chunk: a chunk ends before a block with which they would exceed
/// these. They bound memory whatever the number of columns: a writer holds two chunks, and a reader
/// pins one.
pub const CHUNK_BYTES: usize = 32 << 20;
/// Maximum bytes of the widest column of a block of more than one row.
pub const BLOCK_BYTES: usize = 4 << 20;

/// The values of a column of a chunk.
#[derive(Clone, Debug)]
pub enum SegmentBody {
    /// A segment on the store.
    Stored(StoredSegment),
    /// A value that all rows have.
    Constant(Constant),
}

/// Location and encoding of a segment on the store.
#[derive(Copy, Clone, Debug)]
pub struct StoredSegment {
    /// Page that holds the segment's bytes.
    pub page: PageRef,
    /// Extent of those bytes on the store, with their checksum.
    pub stored: Stored,
    /// Encoding of the values.
    pub encoding: Encoding,
    /// Length of the segment in bytes; the page and the extent round this up to 4 KiB.
    pub len_bytes: u64,
}

/// One column of one chunk: its values or their location, their statistics and their placement.
#[derive(Debug)]
pub struct ColumnSegment {
    /// The values.
    pub body: SegmentBody,
    /// Statistics of the values.
    pub statistics: SegmentStatistics,
    /// Placement of the segment: in the pool, or copied to a heap.
    pub placement: SegmentPlacement,
    space: Space,
    /// Number of chunks with this segment that a commit names. Dropping the last reference frees
    /// the page and the extent if it is zero.
    named: AtomicU32,
}

/// Values of a column of a chunk, and their statistics.
#[derive(Debug)]
pub(crate) struct SegmentParts {
    pub body: SegmentBody,
    pub statistics: SegmentStatistics,
}

impl ColumnSegment {
    /// Builds a segment that no commit names yet.
    pub(crate) fn fresh(parts: SegmentParts, space: Space) -> Arc<Self> {
        Self::new(parts, space, 0)
    }

    /// Builds a segment of a chunk that was loaded from the catalog.
    pub(crate) fn committed(parts: SegmentParts, space: Space) -> Arc<Self> {
        Self::new(parts, space, 1)
    }

    fn new(parts: SegmentParts, space: Space, named: u32) -> Arc<Self> {
        let SegmentParts { body, statistics } = parts;
        let (placement, named) = (SegmentPlacement::default(), AtomicU32::new(named));
        Arc::new(Self { body, statistics, placement, space, named })
    }

    /// Returns the segment on the store; `None` for a constant.
    #[must_use]
    pub fn stored(&self) -> Option<&StoredSegment> {
        match &self.body {
            SegmentBody::Stored(stored) => Some(stored),
            SegmentBody::Constant(_) => None,
        }
    }

    /// Returns the value of all rows; `None` for a segment on the store.
    #[must_use]
    pub fn constant(&self) -> Option<&Constant> {
        match &self.body {
            SegmentBody::Stored(_) => None,
            SegmentBody::Constant(constant) => Some(constant),
        }
    }

    /// Returns the bytes of the segment on the store; zero for a constant.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.stored().map_or(0, |it| it.len_bytes)
    }

    /// Returns the bytes of its extent; zero for a constant.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.stored().map_or(0, |it| it.stored.extent.len_bytes)
    }
}

impl Drop for ColumnSegment {
    fn drop(&mut self) {
        let SegmentBody::Stored(StoredSegment { page, .. }) = self.body else { return };
        if *self.named.get_mut() == 0 {
            let freed = self.space.free(page);
            debug_assert!(freed.is_ok(), "a page of this space: {freed:?}");
        }
    }
}

/// State of a chunk, which decides if the space of segments that only it has is freed when it is
/// dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    /// No commit names the chunk.
    Fresh = 0,
    /// The catalog names the chunk: its extents are kept.
    Committed = 1,
    /// A committed statement removed the chunk.
    Retired = 2,
}

/// Properties of a chunk other than its columns: see the fields of [`Chunk`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    pub id: u64,
    pub place: u64,
    pub rows: usize,
    pub(crate) is_full: bool,
}

/// An immutable part of a table. Dropping the last reference frees its space unless the catalog
/// names the chunk.
#[derive(Debug)]
pub struct Chunk {
    /// Id of the chunk in its table, never reused.
    pub id: u64,
    /// Position of its rows in the table: chunks are ordered by place, and by id within one place.
    /// A chunk merged from others takes the place of the first of them, and a chunk written anew
    /// by ALTER TABLE that of its predecessor, so that both keep the order of rows; any other
    /// chunk has its id as its place.
    pub place: u64,
    /// True if the chunk ended because it had no room for the next row.
    pub(crate) is_full: bool,
    /// Number of rows in the chunk.
    pub rows: usize,
    /// One segment per column of the table, in the order of its schema.
    pub columns: Vec<Arc<ColumnSegment>>,
    space: Space,
    /// Number of rows of each of its blocks, once it is known.
    layout: OnceLock<Layout>,
    fate: AtomicU8,
}

impl Chunk {
    /// Builds a chunk that no commit names yet.
    pub(crate) fn fresh(key: ChunkKey, columns: Vec<Arc<ColumnSegment>>, space: Space) -> Self {
        Self::new(key, columns, space, Fate::Fresh)
    }

    /// Builds a chunk that was loaded from the catalog, of committed segments.
    pub(crate) fn committed(key: ChunkKey, columns: Vec<Arc<ColumnSegment>>, space: Space) -> Self {
        Self::new(key, columns, space, Fate::Committed)
    }

    fn new(key: ChunkKey, columns: Vec<Arc<ColumnSegment>>, space: Space, fate: Fate) -> Self {
        let ChunkKey { id, place, rows, is_full } = key;
        let (layout, fate) = (OnceLock::new(), AtomicU8::new(fate as u8));
        Self { id, place, is_full, rows, columns, space, layout, fate }
    }

    /// Returns the number of rows of each of its blocks, if it is known.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.get()
    }

    /// Records the number of rows of each of its blocks.
    pub(crate) fn set_layout(&self, layout: Layout) {
        // All of its segments have the same layout, so that one recorded earlier is kept.
        let _ = self.layout.set(layout);
    }

    /// Returns the key of the chunk.
    pub(crate) fn key(&self) -> ChunkKey {
        ChunkKey { id: self.id, place: self.place, rows: self.rows, is_full: self.is_full }
    }

    /// Returns the pool space that holds the pages.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the bytes of the extents of all columns.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.extent_bytes()).sum()
    }

    /// Returns references to the pages of the columns in `projection` that are on the store, in its
    /// order.
    #[must_use]
    pub fn pages(&self, projection: &[usize]) -> Vec<PageRef> {
        let stored = projection.iter().filter_map(|column| self.columns[*column].stored());
        stored.map(|stored| stored.page).collect()
    }

    /// Returns the pages to prefetch for `projection`: of those of [`Chunk::pages`], the ones that
    /// are read from the pool. Columns that are copied to a heap are prefetched there by this call.
    pub(crate) fn pages_ahead(&self, projection: &[usize]) -> Vec<PageRef> {
        let mut pages = Vec::with_capacity(projection.len());
        for column in projection {
            let segment = &self.columns[*column];
            match segment.placement.copied() {
                Some(copied) => copied.prefetch(),
                None => pages.extend(segment.stored().map(|stored| stored.page)),
            }
        }
        pages
    }

    /// Marks the chunk as named by the catalog: its extents outlive the process.
    pub(crate) fn mark_committed(&self) {
        if self.change_fate(Fate::Fresh, Fate::Committed) {
            for segment in &self.columns {
                segment.named.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Marks the chunk as no longer named by the catalog: its last reader frees the space that no
    /// other chunk shares.
    pub(crate) fn mark_retired(&self) {
        if self.change_fate(Fate::Committed, Fate::Retired) {
            for segment in &self.columns {
                segment.named.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Changes the state of the chunk from `from` to `to`. Returns false, and changes nothing, if
    /// it is in another state.
    fn change_fate(&self, from: Fate, to: Fate) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.fate.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

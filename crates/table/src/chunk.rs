//! Chunks: up to 65,536 rows of one table, immutable, one segment (page and extent) per column.

use std::sync::atomic::{AtomicU8, Ordering};

use terrace_pool::{PageRef, Space};
use terrace_store::Stored;

use crate::placement::SegmentPlacement;
use crate::segment::Encoding;
use crate::statistics::SegmentStatistics;

/// Maximum number of rows in a chunk.
pub const CHUNK_ROWS: usize = 65_536;
/// Maximum number of rows in a block, which a scan returns as one batch.
pub const BLOCK_ROWS: usize = 8_192;
/// Size of its largest segment before which a chunk ends.
pub const SEGMENT_BYTES: usize = 8 << 20;
/// Size of all its segments together before which a chunk ends: a writer holds two chunks, and a
/// reader pins one, whatever the number of columns.
pub const CHUNK_BYTES: usize = 32 << 20;
/// Size of its largest column before which a block ends.
pub const BLOCK_BYTES: usize = 4 << 20;

/// One column of one chunk.
#[derive(Debug)]
pub struct ColumnSegment {
    /// Page that holds the segment's bytes.
    pub page: PageRef,
    /// Extent of those bytes on the store, with their checksum.
    pub stored: Stored,
    /// Encoding of the values.
    pub encoding: Encoding,
    /// Length of the segment in bytes; the page and the extent round this up to 4 KiB.
    pub len_bytes: u64,
    /// Statistics of the values.
    pub statistics: SegmentStatistics,
    /// Placement of the segment: in the pool, or copied to a heap.
    pub placement: SegmentPlacement,
}

/// Fate of a chunk's pages and extents when its last reference is dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    /// No commit names the chunk: its space is freed.
    Fresh = 0,
    /// The catalog names the chunk: its extents are kept.
    Committed = 1,
    /// A committed statement removed the chunk: its space is freed.
    Retired = 2,
}

/// Id, place and size of a chunk.
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
    /// A chunk merged from others takes the place of the first of them, so that merging keeps the
    /// order of rows; any other chunk has its id as its place.
    pub place: u64,
    /// True if the chunk ended because it had no room for the next row.
    pub(crate) is_full: bool,
    /// Number of rows in the chunk.
    pub rows: usize,
    /// One segment per column of the table, in the order of its schema.
    pub columns: Vec<ColumnSegment>,
    space: Space,
    fate: AtomicU8,
}

impl Chunk {
    /// Builds a chunk that no commit names yet.
    pub(crate) fn fresh(key: ChunkKey, columns: Vec<ColumnSegment>, space: Space) -> Self {
        Self::new(key, columns, space, Fate::Fresh)
    }

    /// Builds a chunk that was loaded from the catalog.
    pub(crate) fn committed(key: ChunkKey, columns: Vec<ColumnSegment>, space: Space) -> Self {
        Self::new(key, columns, space, Fate::Committed)
    }

    fn new(key: ChunkKey, columns: Vec<ColumnSegment>, space: Space, fate: Fate) -> Self {
        let ChunkKey { id, place, rows, is_full } = key;
        Self { id, place, is_full, rows, columns, space, fate: AtomicU8::new(fate as u8) }
    }

    /// Returns the pool space that holds the pages.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the bytes of the extents of all columns.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.stored.extent.len_bytes).sum()
    }

    /// Returns references to the pages of the columns in `projection`, in its order.
    #[must_use]
    pub fn pages(&self, projection: &[usize]) -> Vec<PageRef> {
        projection.iter().map(|&column| self.columns[column].page).collect()
    }

    /// Returns the pages to prefetch for `projection`: of those of [`Chunk::pages`], the ones that
    /// are read from the pool. Columns that are copied to a heap are prefetched there by this call.
    pub(crate) fn pages_ahead(&self, projection: &[usize]) -> Vec<PageRef> {
        let mut pages = Vec::with_capacity(projection.len());
        for column in projection {
            let segment = &self.columns[*column];
            match segment.placement.copied() {
                Some(copied) => copied.prefetch(),
                None => pages.push(segment.page),
            }
        }
        pages
    }

    /// Marks the chunk as named by the catalog: its extents outlive the process.
    pub(crate) fn mark_committed(&self) {
        self.fate.store(Fate::Committed as u8, Ordering::Release);
    }

    /// Marks the chunk as no longer named by the catalog: its last reader frees its space.
    pub(crate) fn mark_retired(&self) {
        self.fate.store(Fate::Retired as u8, Ordering::Release);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if *self.fate.get_mut() == Fate::Committed as u8 {
            return;
        }
        for column in &self.columns {
            let freed = self.space.free(column.page);
            debug_assert!(freed.is_ok(), "a page of this space: {freed:?}");
        }
    }
}

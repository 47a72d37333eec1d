//! A chunk: up to 65,536 rows of one table, immutable, one segment (page and extent) per column.

use std::sync::atomic::{AtomicU8, Ordering};

use terrace_pool::{PageRef, Space};
use terrace_tier::store::Stored;

use crate::home::Home;
use crate::segment::Encoding;
use crate::statistics::SegmentStatistics;

/// Most rows in a chunk.
pub const CHUNK_ROWS: usize = 65_536;
/// Most rows in a block, which is what a scan hands on as one batch.
pub const BLOCK_ROWS: usize = 8_192;
/// A chunk ends before its largest segment passes this many bytes.
pub const SEGMENT_BYTES: usize = 8 << 20;
/// A chunk ends before its segments together pass this many bytes: a writer holds two chunks, and
/// a reader pins one, whatever the number of columns.
pub const CHUNK_BYTES: usize = 32 << 20;
/// A block ends before its largest column passes this many bytes.
pub const BLOCK_BYTES: usize = 4 << 20;

/// One column of one chunk.
#[derive(Debug)]
pub struct ColumnSegment {
    /// The page with the segment's bytes.
    pub page: PageRef,
    /// Where those bytes are on the store, with their checksum.
    pub stored: Stored,
    /// How its values are laid out.
    pub encoding: Encoding,
    /// Bytes of the segment; the page and the extent are this rounded up to 4 KiB.
    pub len_bytes: u64,
    /// What is known of the values without reading them.
    pub statistics: SegmentStatistics,
    /// Where it is read.
    pub(crate) home: Home,
}

/// What happens to the pages and extents of a chunk when its last owner lets go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    /// No commit names the chunk: its space is given back.
    Fresh = 0,
    /// The catalog names the chunk: its extents stay.
    Committed = 1,
    /// A committed statement removed the chunk: its space is given back.
    Retired = 2,
}

/// The number, the place and the size of a chunk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    pub(crate) id: u64,
    pub(crate) place: u64,
    pub(crate) rows: usize,
    pub(crate) is_full: bool,
}

/// An immutable piece of a table. Dropping the last reference gives the space back unless the
/// catalog names the chunk.
#[derive(Debug)]
pub struct Chunk {
    /// Number of the chunk in its table, never used twice.
    pub id: u64,
    /// Where its rows are among those of the table: chunks are in the order of their places, and of
    /// their numbers at one place. A chunk that is made of others takes the place of the first of
    /// them, so that merging changes no order; any other has its number for a place.
    pub(crate) place: u64,
    /// The chunk ended because it had no room for the next row.
    pub(crate) is_full: bool,
    /// Rows in the chunk.
    pub rows: usize,
    /// One segment per column of the table, in the order of its schema.
    pub columns: Vec<ColumnSegment>,
    space: Space,
    fate: AtomicU8,
}

impl Chunk {
    /// A chunk that no commit names yet.
    pub(crate) fn fresh(key: ChunkKey, columns: Vec<ColumnSegment>, space: Space) -> Self {
        Self::new(key, columns, space, Fate::Fresh)
    }

    /// A chunk that was found in the catalog.
    pub(crate) fn committed(key: ChunkKey, columns: Vec<ColumnSegment>, space: Space) -> Self {
        Self::new(key, columns, space, Fate::Committed)
    }

    fn new(key: ChunkKey, columns: Vec<ColumnSegment>, space: Space, fate: Fate) -> Self {
        let ChunkKey { id, place, rows, is_full } = key;
        Self { id, place, is_full, rows, columns, space, fate: AtomicU8::new(fate as u8) }
    }

    /// The pool space that holds the pages.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Bytes of the extents of all columns.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.stored.extent.len_bytes).sum()
    }

    /// References to the pages of the columns in `projection`, in its order.
    #[must_use]
    pub fn pages(&self, projection: &[usize]) -> Vec<PageRef> {
        projection.iter().map(|&column| self.columns[column].page).collect()
    }

    /// As [`Chunk::pages`], of those columns alone that are read in the pool; the others are asked
    /// for where they are.
    pub(crate) fn pages_ahead(&self, projection: &[usize]) -> Vec<PageRef> {
        let mut pages = Vec::with_capacity(projection.len());
        for column in projection {
            let segment = &self.columns[*column];
            match segment.home.copied() {
                Some(copied) => copied.prefetch(),
                None => pages.push(segment.page),
            }
        }
        pages
    }

    /// The catalog names the chunk now: its extents outlive the process.
    pub(crate) fn mark_committed(&self) {
        self.fate.store(Fate::Committed as u8, Ordering::Release);
    }

    /// The catalog names the chunk no more: its space goes back with its last reader.
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

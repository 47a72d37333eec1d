//! Encoding of a chunk into pages, and their persistence.

use std::sync::Arc;

use datafusion::arrow::array::Array;
use terrace_pool::{PAGE_MIN_BYTES, PageRef, Space};
use terrace_sys::size::to_u64;

use super::block::{Columns, len};
use crate::chunk::{Chunk, ChunkKey, ColumnSegment, SegmentBody, SegmentParts, StoredSegment};
use crate::error::SqlError;
use crate::failpoint::Point;
use crate::segment::{BlockPlan, CompactPlan, Encoding, SegmentError, SegmentPlan};
use crate::sketch::Sketch;
use crate::statistics::{Collector, SegmentStatistics};
use crate::table::Table;

/// Blocks that are collected until they make a chunk.
pub(super) struct Gathered {
    blocks: Vec<Columns>,
    /// Plans of each column, in the order of the blocks.
    plans: Vec<Vec<BlockPlan>>,
    bytes: Vec<usize>,
    rows: usize,
}

impl Gathered {
    pub(super) fn new(columns: usize) -> Self {
        let plans = (0..columns).map(|_| Vec::new()).collect();
        Self { blocks: Vec::new(), plans, bytes: vec![0; columns], rows: 0 }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes of the blocks, per column.
    pub(super) fn bytes(&self) -> &[usize] {
        &self.bytes
    }

    pub(super) fn add(&mut self, block: Columns, plans: Vec<BlockPlan>) {
        self.rows += len(&block);
        self.blocks.push(block);
        for (column, plan) in plans.into_iter().enumerate() {
            self.bytes[column] += plan.bytes();
            self.plans[column].push(plan);
        }
    }
}

/// A chunk on the store that no commit names yet, and the sketches of its columns.
pub(super) struct Written {
    pub(super) chunk: Arc<Chunk>,
    pub(super) sketches: Vec<Sketch>,
}

/// Guard of pages that are freed unless they become part of a chunk.
struct FreshPages<'a> {
    space: &'a Space,
    pages: Vec<PageRef>,
}

impl Drop for FreshPages<'_> {
    fn drop(&mut self) {
        for page in self.pages.drain(..) {
            let freed = self.space.free(page);
            debug_assert!(freed.is_ok(), "a page of this space: {freed:?}");
        }
    }
}

/// Maximum ratio, as a fraction, of the bytes of a compact segment's page to those of the plain
/// one's: above it decoding does not pay off.
const WORTHWHILE: (usize, usize) = (7, 8);

/// A segment in its chosen encoding.
enum Encoded {
    Plain(SegmentPlan),
    Compact(CompactPlan),
}

impl Encoded {
    /// Encodes a column's segment as its table requests, or plain if that does not pay off.
    fn of(table: &Table, plain: SegmentPlan, blocks: &[Columns], column: usize) -> Self {
        if table.encoding() == Encoding::Plain {
            return Self::Plain(plain);
        }
        let pieces: Vec<&dyn Array> = blocks.iter().map(|block| block[column].as_ref()).collect();
        let (part, whole) = WORTHWHILE;
        let compact = CompactPlan::of(&pieces).unwrap_or_else(|error| {
            tracing::warn!("a column of {} stays plain: {error}", table.name());
            None
        });
        let pages = |bytes: usize| bytes.next_multiple_of(PAGE_MIN_BYTES);
        let saves =
            |compact: &CompactPlan| pages(compact.bytes()) * whole <= pages(plain.bytes()) * part;
        match compact.filter(saves) {
            Some(compact) => Self::Compact(compact),
            None => Self::Plain(plain),
        }
    }

    fn encoding(&self) -> Encoding {
        match self {
            Self::Plain(_) => Encoding::Plain,
            Self::Compact(_) => Encoding::Compact,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Plain(plan) => plan.bytes(),
            Self::Compact(plan) => plan.bytes(),
        }
    }

    fn write(&self, out: &mut [u8]) -> Result<(), SegmentError> {
        match self {
            Self::Plain(plan) => plan.write(out),
            Self::Compact(plan) => plan.write(out),
        }
    }
}

/// Properties of a chunk that its writer decides.
#[derive(Copy, Clone)]
pub(super) struct Sealed {
    /// Its place in the table, if that is not its id.
    pub(super) place: Option<u64>,
    /// True if it had no room for the next row.
    pub(super) is_full: bool,
}

/// Encodes the gathered blocks as a chunk, and persists it. Blocks on the pool and the device.
pub(super) fn write_chunk(
    table: &Table,
    gathered: Gathered,
    sealed: Sealed,
) -> Result<Written, SqlError> {
    let Gathered { blocks, plans, rows, .. } = gathered;
    let all: Vec<usize> = (0..plans.len()).collect();
    let (segments, sketches) = write_segments(table, &all, &blocks, plans)?.into_iter().unzip();
    let id = table.next_chunk_id();
    let Sealed { place, is_full } = sealed;
    let key = ChunkKey { id, place: place.unwrap_or(id), rows, is_full };
    let chunk = Arc::new(Chunk::fresh(key, segments, table.space().clone()));
    table.journal().failpoints.hit(Point::Persisted)?;
    Ok(Written { chunk, sketches })
}

/// Encodes and persists segments of the columns of `table` with the indices `fields`, one for each
/// column of `blocks`. Blocks on the pool and the device.
pub(super) fn write_segments(
    table: &Table,
    fields: &[usize],
    blocks: &[Columns],
    plans: Vec<Vec<BlockPlan>>,
) -> Result<Vec<(Arc<ColumnSegment>, Sketch)>, SqlError> {
    let mut fresh = FreshPages { space: table.space(), pages: Vec::new() };
    let mut columns = Vec::with_capacity(plans.len());
    for (index, (field, plans)) in fields.iter().zip(plans).enumerate() {
        let field = table.schema().field(*field);
        let malformed = |source| SqlError::Segment {
            table: table.full_name(),
            column: field.name().clone(),
            source,
        };
        let plan = SegmentPlan::new(field.data_type(), plans).map_err(malformed)?;
        let plan = Encoded::of(table, plan, blocks, index);
        let len_bytes = plan.bytes();
        let (page, mut bytes) = table.space().allocate(len_bytes)?;
        fresh.pages.push(page);
        plan.write(&mut bytes).map_err(malformed)?;
        drop(bytes);
        columns.push((plan.encoding(), len_bytes, collect(blocks, index)?));
    }
    table.journal().failpoints.hit(Point::Persist)?;
    let stored = table.space().persist(&mut fresh.pages)?;
    let pages = std::mem::take(&mut fresh.pages);
    let segments = pages.into_iter().zip(stored).zip(columns);
    let segments = segments.map(|((page, stored), (encoding, len_bytes, known))| {
        let (statistics, sketch) = known;
        let len_bytes = to_u64(len_bytes);
        let body = SegmentBody::Stored(StoredSegment { page, stored, encoding, len_bytes });
        let parts = SegmentParts { body, statistics };
        (ColumnSegment::fresh(parts, table.space().clone()), sketch)
    });
    Ok(segments.collect())
}

fn collect(blocks: &[Columns], column: usize) -> Result<(SegmentStatistics, Sketch), SqlError> {
    let mut collector = Collector::default();
    for block in blocks {
        collector.add(&block[column])?;
    }
    Ok(collector.finish())
}

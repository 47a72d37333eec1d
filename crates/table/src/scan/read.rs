//! Reading of chunks block by block, without a copy if the limit of pins allows it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use terrace_exec::pin_needed;
use terrace_exec::stream::give_way;
use terrace_pool::PoolError;
use terrace_sys::size::to_usize;

use super::copy::copy;
use super::counters::{Origin, ScanCounters};
use super::select::{self, ChunkFacts, Left, RowFilter};
use crate::chunk::{BLOCK_ROWS, Chunk, ColumnSegment};
use crate::error::SqlError;
use crate::placement::Copied;
use crate::segment::{Encoding, Layout, Segment, SegmentError};
use terrace_governor::pins::{CopyRoom, PagePins, PinRoom};

/// Reader of some columns of the chunks of a table.
pub struct ChunkReader {
    table: Arc<str>,
    /// Not empty.
    columns: Vec<usize>,
    /// Schema of those columns.
    schema: SchemaRef,
    pins: Arc<PagePins>,
    counters: Option<ScanCounters>,
}

/// Reader of the blocks of one chunk, in order.
pub struct Blocks {
    reader: Arc<ChunkReader>,
    chunk: Arc<Chunk>,
    source: Source,
}

/// The rows of a block that passed the filter.
pub(super) struct Block {
    pub(super) arrays: Vec<ArrayRef>,
    /// Number of rows of this block, and of blocks before it, that were filtered out.
    pub(super) skipped: usize,
}

/// Source of the arrays of a block.
enum Source {
    /// All segments are available, and the arrays point into them or are decoded from them.
    Segments(SegmentBlocks),
    /// All blocks are copies, which are accounted for until they are returned.
    Copied(CopiedBlocks),
    /// The block with this index is copied from its segments, of which one at a time is pinned.
    Each(usize),
}

/// Segments of all columns of a chunk: pinned, or copies of compact ones.
struct SegmentBlocks {
    segments: Vec<Segment>,
    next: usize,
    facts: ChunkFacts,
    /// Account of the copies.
    _copies: Option<CopyRoom>,
}

/// Copies of all blocks of a chunk, accounted for until they are returned.
struct CopiedBlocks {
    columns: Vec<CopiedColumn>,
    next: usize,
    blocks: usize,
    room: CopyRoom,
    /// Account of encoded columns, which are kept to the last block.
    encoded_room: CopyRoom,
}

enum CopiedColumn {
    /// Blocks that have not been returned yet.
    Arrays(VecDeque<ArrayRef>),
    /// Segment from which each block is decoded when it is due.
    Encoded(Box<Segment>),
}

impl ChunkReader {
    /// Creates a reader of these columns of the chunks of a table.
    ///
    /// # Errors
    /// If the schema does not have the columns.
    pub fn new(
        table: Arc<str>,
        schema: &SchemaRef,
        columns: Vec<usize>,
        pins: Arc<PagePins>,
    ) -> Result<Self, SqlError> {
        let schema = Arc::new(schema.project(&columns)?);
        Ok(Self { table, columns, schema, pins, counters: None })
    }

    /// Returns the same reader, counting what it reads.
    pub(super) fn counting(self, counters: ScanCounters) -> Self {
        Self { counters: Some(counters), ..self }
    }

    /// Returns the schema of the columns that are read.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Begins to read a chunk.
    pub async fn open(self: &Arc<Self>, chunk: &Arc<Chunk>) -> Result<Blocks, SqlError> {
        self.pins.resumed().await;
        self.columns.iter().for_each(|column| chunk.columns[*column].placement.count());
        self.find_layout(chunk).await?;
        let source = match self.pin_all(chunk).await? {
            Some(segments) => Source::Segments(SegmentBlocks::new(segments, None)),
            None => self.copy_all(chunk).await?,
        };
        Ok(Blocks { reader: Arc::clone(self), chunk: Arc::clone(chunk), source })
    }

    /// Finds the number of rows of each block of a chunk, unless it is known or no column that is
    /// read needs it: a column with one value in all rows has no blocks of its own. Every other
    /// segment of the chunk stores it; takes the smallest that is read anyway, or else of all.
    async fn find_layout(&self, chunk: &Chunk) -> Result<(), SqlError> {
        let read = || self.columns.iter().map(|column| &chunk.columns[*column]);
        if chunk.layout().is_some() || read().all(|segment| segment.constant().is_none()) {
            return Ok(());
        }
        let segment = smallest(read()).or_else(|| smallest(chunk.columns.iter()));
        let Some((segment, stored)) = segment.and_then(|it| Some((it, it.stored()?))) else {
            chunk.set_layout(Layout::even(chunk.rows, BLOCK_ROWS));
            return Ok(());
        };
        let bytes = match segment.placement.copied() {
            Some(copy) => copy.bytes(),
            None => {
                let mut room = self.pins.reserve_for_a_copy(segment.extent_bytes());
                let pinned = pin_needed(chunk.space(), stored.page).await?;
                let page = pinned.into_iter().next().ok_or_else(no_page)?;
                Bytes::from_owner(room.pin(page))
            }
        };
        let layout = Layout::of_segment(&bytes).map_err(|source| self.malformed(0, source))?;
        chunk.set_layout(layout);
        Ok(())
    }

    /// Returns a segment that repeats the value of a constant column; `None` for any other column.
    fn constant(&self, chunk: &Chunk, index: usize) -> Result<Option<Segment>, SqlError> {
        let Some(constant) = chunk.columns[self.columns[index]].constant() else {
            return Ok(None);
        };
        let layout = chunk.layout().ok_or_else(no_layout)?;
        let segment = Segment::repeating(constant.value(), layout);
        segment.map(Some).map_err(|source| self.malformed(index, source))
    }

    /// Pins the segments of all columns; `None` if that exceeds the limit of pins or the pool has
    /// too few frames.
    async fn pin_all(&self, chunk: &Chunk) -> Result<Option<Vec<Segment>>, SqlError> {
        let segments = || self.columns.iter().map(|column| &chunk.columns[*column]);
        let copies: Vec<_> = segments().map(|segment| segment.placement.copied()).collect();
        let in_pool =
            self.columns.iter().zip(&copies).filter(|(column, copy)| {
                copy.is_none() && chunk.columns[**column].stored().is_some()
            });
        let columns: Vec<usize> = in_pool.map(|(column, _)| *column).collect();
        let lens = columns.iter().map(|column| chunk.columns[*column].extent_bytes());
        let Some(mut room) = self.pins.reserve(lens.sum()) else { return Ok(None) };
        let pages = chunk.pages(&columns);
        let origins: Vec<_> = self.columns.iter().zip(&copies).map(origin_in(chunk)).collect();
        let waiting = self.counters.as_ref().map(|counters| counters.time_waiting.timer());
        let fetched = match pages.as_slice() {
            [] => Ok(Vec::new()),
            pages => chunk.space().fetch(pages).await,
        };
        drop(waiting);
        let pinned = match fetched {
            Err(PoolError::Exhausted { .. }) => return Ok(None),
            fetched => fetched?,
        };
        self.count(chunk, 0, &origins);
        let mut pinned = pinned.into_iter();
        let segments = copies.into_iter().enumerate().map(|(index, copy)| {
            if let Some(segment) = self.constant(chunk, index)? {
                return Ok(segment);
            }
            let page = if copy.is_none() { pinned.next() } else { None };
            let bytes = match (copy, page) {
                (Some(copy), _) => copy.bytes(),
                (None, Some(page)) => Bytes::from_owner(room.pin(page)),
                (None, None) => return Err(no_page()),
            };
            self.segment(index, bytes)
        });
        segments.collect::<Result<_, _>>().map(Some)
    }

    /// Copies the blocks of a chunk column by column, so that one page at a time is pinned. If
    /// there is no room for copies of all, each block is read when it is due.
    async fn copy_all(&self, chunk: &Chunk) -> Result<Source, SqlError> {
        if let Some(counters) = &self.counters {
            counters.chunks_copied.add(1);
        }
        let mut copied = CopiedBlocks {
            columns: Vec::with_capacity(self.columns.len()),
            next: 0,
            blocks: 0,
            room: self.pins.copies(),
            encoded_room: self.pins.copies(),
        };
        for index in 0..self.columns.len() {
            if let Some(segment) = self.constant(chunk, index)? {
                copied.blocks = segment.blocks();
                copied.columns.push(CopiedColumn::Encoded(Box::new(segment)));
                continue;
            }
            let column = &chunk.columns[self.columns[index]];
            let room = match column.stored().map(|stored| stored.encoding) {
                Some(Encoding::Compact) => &mut copied.encoded_room,
                _ => &mut copied.room,
            };
            if !room.try_grow(column.len_bytes()) {
                return Ok(Source::Each(0));
            }
            let segment = self.pin_one(chunk, index, true).await?;
            copied.blocks = segment.blocks();
            copied.columns.push(self.copied(&segment, index)?);
        }
        Ok(copied.into_source())
    }

    /// Copies a column: its blocks, or the encoded bytes of a compact segment, which are fewer.
    fn copied(&self, segment: &Segment, index: usize) -> Result<CopiedColumn, SqlError> {
        if segment.compact().is_some() {
            let copied = segment.copied().map_err(|source| self.malformed(index, source))?;
            return Ok(CopiedColumn::Encoded(Box::new(copied)));
        }
        let blocks = (0..segment.blocks()).map(|block| self.array(segment, index, block));
        let copies = blocks.map(|array| array.map(|array| copy(&array)));
        Ok(CopiedColumn::Arrays(copies.collect::<Result<_, _>>()?))
    }

    /// Copies one block of a chunk; `None` after the last.
    async fn copy_one(
        &self,
        chunk: &Chunk,
        block: usize,
    ) -> Result<Option<Vec<ArrayRef>>, SqlError> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for index in 0..self.columns.len() {
            let segment = self.pin_one(chunk, index, block == 0).await?;
            if block >= segment.blocks() {
                return Ok(None);
            }
            arrays.push(copy(&self.array(&segment, index, block)?));
        }
        Ok(Some(arrays))
    }

    /// Pins the segment of one column, to be copied from.
    async fn pin_one(
        &self,
        chunk: &Chunk,
        index: usize,
        is_counted: bool,
    ) -> Result<Segment, SqlError> {
        if let Some(segment) = self.constant(chunk, index)? {
            return Ok(segment);
        }
        let column = self.columns[index];
        let placement = &chunk.columns[column].placement;
        if let Some(copy) = placement.copied() {
            if is_counted {
                self.count(chunk, index, &[Origin::of_copy(&copy)]);
            }
            return self.segment(index, copy.bytes());
        }
        let len_bytes = chunk.columns[column].extent_bytes();
        let mut room: PinRoom = self.pins.reserve_for_a_copy(len_bytes);
        let page = chunk.columns[column].stored().ok_or_else(no_page)?.page;
        let origin = Origin::of_tier(chunk.space().tier_of(page));
        let waiting = self.counters.as_ref().map(|counters| counters.time_waiting.timer());
        let pinned = pin_needed(chunk.space(), page).await?;
        drop(waiting);
        if is_counted {
            self.count(chunk, index, &[origin]);
        }
        let page = pinned.into_iter().next().ok_or_else(no_page)?;
        self.segment(index, Bytes::from_owner(room.pin(page)))
    }

    /// Counts the columns from `first` on as read from these origins.
    fn count(&self, chunk: &Chunk, first: usize, origins: &[Origin]) {
        let Some(counters) = &self.counters else { return };
        for (column, origin) in self.columns[first..].iter().zip(origins) {
            counters.read(*origin, to_usize(chunk.columns[*column].len_bytes()));
        }
    }

    /// Returns the next block of segments, without rows whose decoding the filter can save.
    async fn next_of_segments(
        &self,
        blocks: &mut SegmentBlocks,
        filter: Option<&RowFilter>,
    ) -> Result<Option<Block>, SqlError> {
        let SegmentBlocks { segments, next, facts, .. } = blocks;
        let filter = filter.filter(|filter| filter.fits(segments));
        let mut skipped = 0;
        while segments.first().is_some_and(|segment| *next < segment.blocks()) {
            let block = *next;
            *next += 1;
            let rows = segments[0].block_rows(block).map_err(|e| self.malformed(0, e))?;
            let mut decoded = vec![None; segments.len()];
            let left = filter.map(|filter| filter.rows(segments, block, facts, &mut decoded));
            let left = left.transpose().map_err(|(index, error)| self.malformed(index, error))?;
            let left = match left.unwrap_or(Left::All) {
                Left::Nothing => {
                    skipped += rows;
                    // Skipping blocks takes as much work as returning them, so yield to other
                    // tasks.
                    give_way().await;
                    continue;
                }
                left => left,
            };
            let arrays = select::read(segments, block, &left, &mut decoded);
            let arrays = arrays.map_err(|(index, error)| self.malformed(index, error))?;
            skipped += rows - arrays.first().map_or(rows, |array| array.len()).min(rows);
            return Ok(Some(Block { arrays, skipped }));
        }
        if let (Some(counters), 1..) = (&self.counters, skipped) {
            counters.passed(skipped);
        }
        Ok(None)
    }

    fn segment(&self, index: usize, bytes: Bytes) -> Result<Segment, SqlError> {
        let data_type = self.schema.field(index).data_type();
        Segment::open_bytes(bytes, data_type).map_err(|source| self.malformed(index, source))
    }

    fn array(&self, segment: &Segment, index: usize, block: usize) -> Result<ArrayRef, SqlError> {
        segment.block(block).map_err(|source| self.malformed(index, source))
    }

    fn malformed(&self, index: usize, source: SegmentError) -> SqlError {
        let column = self.schema.field(index).name().clone();
        SqlError::Segment { table: self.table.to_string(), column, source }
    }
}

/// Returns the smallest segment that is on the store.
fn smallest<'a>(
    segments: impl Iterator<Item = &'a Arc<ColumnSegment>>,
) -> Option<&'a Arc<ColumnSegment>> {
    let stored = segments.filter(|segment| segment.stored().is_some());
    stored.min_by_key(|segment| segment.len_bytes())
}

fn no_layout() -> SqlError {
    SqlError::Task("a chunk is read whose blocks are not known".to_owned())
}

fn no_page() -> SqlError {
    SqlError::Task("a fetch returned less than it was asked for".to_owned())
}

/// Returns a function that maps a column of `chunk`, with or without a copy in a heap, to the
/// origin of its bytes.
fn origin_in(chunk: &Chunk) -> impl Fn((&usize, &Option<Arc<Copied>>)) -> Origin {
    move |(column, copy)| match copy {
        Some(copy) => Origin::of_copy(copy),
        // Values that all rows have are in memory, and take no bytes of it for each chunk.
        None => chunk.columns[*column]
            .stored()
            .map_or(Origin::Dram, |stored| Origin::of_tier(chunk.space().tier_of(stored.page))),
    }
}

impl SegmentBlocks {
    fn new(segments: Vec<Segment>, copies: Option<CopyRoom>) -> Self {
        Self { segments, next: 0, facts: ChunkFacts::default(), _copies: copies }
    }
}

impl CopiedBlocks {
    /// Returns segments if all columns are encoded: then rows can be filtered before they are
    /// decoded.
    fn into_source(self) -> Source {
        if self.columns.iter().any(|column| matches!(column, CopiedColumn::Arrays(_))) {
            return Source::Copied(self);
        }
        let columns = self.columns.into_iter();
        let segments = columns.filter_map(|column| match column {
            CopiedColumn::Encoded(segment) => Some(*segment),
            CopiedColumn::Arrays(_) => None,
        });
        Source::Segments(SegmentBlocks::new(segments.collect(), Some(self.encoded_room)))
    }

    fn next(&mut self, reader: &ChunkReader) -> Result<Option<Vec<ArrayRef>>, SqlError> {
        let block = self.next;
        if block >= self.blocks {
            return Ok(None);
        }
        self.next += 1;
        self.room.hand_on(self.blocks - block);
        let columns = self.columns.iter_mut().enumerate();
        let arrays = columns.map(|(index, column)| match column {
            CopiedColumn::Encoded(segment) => reader.array(segment, index, block),
            CopiedColumn::Arrays(arrays) => arrays.pop_front().ok_or_else(|| {
                reader.malformed(index, SegmentError::malformed("it has fewer blocks than others"))
            }),
        });
        arrays.collect::<Result<_, _>>().map(Some)
    }
}

impl Blocks {
    /// Returns the columns of the next block; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<ArrayRef>>, SqlError> {
        Ok(self.next_of(None).await?.map(|block| block.arrays))
    }

    /// Returns the columns of the next block with rows that pass `filter`, with at least those
    /// rows; `None` at the end.
    pub(super) async fn next_of(
        &mut self,
        filter: Option<&RowFilter>,
    ) -> Result<Option<Block>, SqlError> {
        let reader = &self.reader;
        let arrays = match &mut self.source {
            Source::Segments(blocks) => return reader.next_of_segments(blocks, filter).await,
            Source::Copied(copied) => copied.next(reader),
            Source::Each(next) => {
                let block = *next;
                *next += 1;
                reader.copy_one(&self.chunk, block).await
            }
        };
        Ok(arrays?.map(|arrays| Block { arrays, skipped: 0 }))
    }
}

#[cfg(test)]
mod tests;

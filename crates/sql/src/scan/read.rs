//! Reads chunks block by block, without a copy where the limit of pins allows it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use terrace_pool::PoolError;
use terrace_sys::size::to_usize;

use super::copy::copy;
use super::counters::{Origin, ScanCounters};
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::pins::{CopyRoom, PagePins, PinRoom};
use crate::segment::{Segment, SegmentError};

/// Reads some columns of the chunks of a table.
pub(crate) struct ChunkReader {
    table: Arc<str>,
    /// At least one.
    columns: Vec<usize>,
    /// The schema of those columns.
    schema: SchemaRef,
    pins: Arc<PagePins>,
    counters: Option<ScanCounters>,
}

/// The blocks of a chunk, one after the other.
pub(crate) struct Blocks {
    reader: Arc<ChunkReader>,
    chunk: Arc<Chunk>,
    source: Source,
}

/// Where the arrays of a block come from.
enum Source {
    /// All segments are pinned, and the arrays point into them. The number is the next block's.
    Pinned(Vec<Segment>, usize),
    /// All blocks are copies, which are accounted for until they are handed on.
    Copied(VecDeque<Vec<ArrayRef>>, CopyRoom),
    /// The block with this number is copied from its segments, of which one at a time is pinned.
    Each(usize),
}

impl ChunkReader {
    pub(crate) fn new(
        table: Arc<str>,
        schema: &SchemaRef,
        columns: Vec<usize>,
        pins: Arc<PagePins>,
    ) -> Result<Self, SqlError> {
        let schema = Arc::new(schema.project(&columns)?);
        Ok(Self { table, columns, schema, pins, counters: None })
    }

    /// The same, counting what it reads.
    pub(super) fn counting(self, counters: ScanCounters) -> Self {
        Self { counters: Some(counters), ..self }
    }

    /// The schema of the columns that are read.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Begins to read a chunk.
    pub(crate) async fn open(self: &Arc<Self>, chunk: &Arc<Chunk>) -> Result<Blocks, SqlError> {
        self.pins.resumed().await;
        let source = match self.pin_all(chunk).await? {
            Some(segments) => Source::Pinned(segments, 0),
            None => self.copy_all(chunk).await?,
        };
        Ok(Blocks { reader: Arc::clone(self), chunk: Arc::clone(chunk), source })
    }

    /// Pins the segments of all columns; none where that is more than may be pinned, or than the
    /// pool has frames for.
    async fn pin_all(&self, chunk: &Chunk) -> Result<Option<Vec<Segment>>, SqlError> {
        let segments = self.columns.iter().map(|column| &chunk.columns[*column]);
        let bytes = segments.map(|segment| segment.stored.extent.len_bytes).sum();
        let Some(mut room) = self.pins.reserve(bytes) else { return Ok(None) };
        let pages = chunk.pages(&self.columns);
        let origins = self.origins(chunk);
        let waiting = self.counters.as_ref().map(|counters| counters.time_waiting.timer());
        let fetched = chunk.space().fetch(&pages).await;
        drop(waiting);
        let pinned = match fetched {
            Err(PoolError::Exhausted { .. }) => return Ok(None),
            fetched => fetched?,
        };
        self.count(chunk, 0, &origins);
        let bytes = pinned.into_iter().map(|page| Bytes::from_owner(room.pin(page)));
        let segments = bytes.enumerate().map(|(index, bytes)| self.segment(index, bytes));
        segments.collect::<Result<_, _>>().map(Some)
    }

    /// Copies the blocks of a chunk column by column, so that one page at a time is pinned. Where
    /// there is no room for copies of all, each block is read when it is its turn.
    async fn copy_all(&self, chunk: &Chunk) -> Result<Source, SqlError> {
        if let Some(counters) = &self.counters {
            counters.chunks_copied.add(1);
        }
        let mut room = self.pins.copies();
        let mut blocks: VecDeque<Vec<ArrayRef>> = VecDeque::new();
        for index in 0..self.columns.len() {
            if !room.try_grow(chunk.columns[self.columns[index]].len_bytes) {
                return Ok(Source::Each(0));
            }
            let segment = self.pin_one(chunk, index, true).await?;
            blocks.resize(segment.blocks(), Vec::with_capacity(self.columns.len()));
            for (block, arrays) in blocks.iter_mut().enumerate() {
                arrays.push(copy(&self.array(&segment, index, block)?));
            }
        }
        Ok(Source::Copied(blocks, room))
    }

    /// Copies one block of a chunk; none behind the last.
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
        let column = self.columns[index];
        let len_bytes = chunk.columns[column].stored.extent.len_bytes;
        let mut room: PinRoom = self.pins.reserve_for_a_copy(len_bytes);
        let pages = chunk.pages(&[column]);
        let origin = Origin::of_tier(chunk.space().tier_of(pages[0]));
        let waiting = self.counters.as_ref().map(|counters| counters.time_waiting.timer());
        let pinned = chunk.space().fetch(&pages).await?;
        drop(waiting);
        if is_counted {
            self.count(chunk, index, &[origin]);
        }
        let page = pinned
            .into_iter()
            .next()
            .ok_or_else(|| SqlError::Task("a fetch of one page returned none".to_owned()))?;
        self.segment(index, Bytes::from_owner(room.pin(page)))
    }

    fn origins(&self, chunk: &Chunk) -> Vec<Origin> {
        let pages = chunk.pages(&self.columns);
        pages.iter().map(|page| Origin::of_tier(chunk.space().tier_of(*page))).collect()
    }

    /// Counts the columns from `first` on as read from these origins.
    fn count(&self, chunk: &Chunk, first: usize, origins: &[Origin]) {
        let Some(counters) = &self.counters else { return };
        for (column, origin) in self.columns[first..].iter().zip(origins) {
            counters.read(*origin, to_usize(chunk.columns[*column].len_bytes));
        }
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

impl Blocks {
    /// The columns of the next block; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ArrayRef>>, SqlError> {
        let reader = &self.reader;
        match &mut self.source {
            Source::Pinned(segments, next) => {
                let block = *next;
                if segments.first().is_none_or(|segment| block >= segment.blocks()) {
                    return Ok(None);
                }
                *next += 1;
                let arrays = segments.iter().enumerate();
                let arrays = arrays.map(|(index, segment)| reader.array(segment, index, block));
                arrays.collect::<Result<_, _>>().map(Some)
            }
            Source::Copied(blocks, room) => {
                room.hand_on(blocks.len());
                Ok(blocks.pop_front())
            }
            Source::Each(next) => {
                let block = *next;
                *next += 1;
                reader.copy_one(&self.chunk, block).await
            }
        }
    }
}

#[cfg(test)]
mod tests;

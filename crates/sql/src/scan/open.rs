//! Opens chunks: prunes, fetches, and turns blocks into batches.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use terrace_sys::size::to_usize;

use super::ChunkNumber;
use super::ahead::ReadAhead;
use super::copy::copy;
use super::counters::{Origin, ScanCounters};
use super::prune::ChunkFilter;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::pins::PagePins;
use crate::segment::{Segment, SegmentError};
use crate::spill::pool_error;
use crate::table::TableVersion;

/// Opens the chunks of one partition of a scan.
pub(super) struct ChunkOpener {
    reader: Arc<Reader>,
    filter: ChunkFilter,
    ahead: ReadAhead,
}

/// What it takes to turn a chunk into batches.
struct Reader {
    table: Arc<str>,
    version: Arc<TableVersion>,
    /// The columns that are read, in the order of the table.
    columns: Vec<usize>,
    /// Their schema, which the projection takes.
    schema: SchemaRef,
    /// None where the columns are handed on as they are.
    projector: Option<Projector>,
    pins: Arc<PagePins>,
    counters: ScanCounters,
}

impl ChunkOpener {
    pub(super) fn new(
        table: Arc<str>,
        version: Arc<TableVersion>,
        projection: &ProjectionExprs,
        filter: ChunkFilter,
        ahead: ReadAhead,
        pins: Arc<PagePins>,
        counters: ScanCounters,
    ) -> Result<Self> {
        let mut columns = projection.column_indices();
        columns.sort_unstable();
        columns.dedup();
        let schema = Arc::new(version.schema().project(&columns)?);
        let projector = projector(projection, &columns, &schema)?;
        let reader = Reader { table, version, columns, schema, projector, pins, counters };
        Ok(Self { reader: Arc::new(reader), filter, ahead })
    }
}

/// The projection over the columns that are read, unless it is just those.
fn projector(
    projection: &ProjectionExprs,
    columns: &[usize],
    schema: &SchemaRef,
) -> Result<Option<Projector>> {
    let projection = projection.clone().try_map_exprs(|expr| {
        datafusion::physical_expr::utils::reassign_expr_columns(expr, schema)
    })?;
    let identity = ProjectionExprs::from_indices(&(0..columns.len()).collect::<Vec<_>>(), schema);
    if projection == identity {
        return Ok(None);
    }
    projection.make_projector(schema).map(Some)
}

impl FileOpener for ChunkOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let number = file.extension::<ChunkNumber>().map(|number| number.0);
        let number = number.filter(|number| *number < self.reader.version.chunks.len());
        let number = number.ok_or_else(|| {
            internal_datafusion_err!("{} is no chunk of this scan", file.object_meta.location)
        })?;
        let reader = Arc::clone(&self.reader);
        let chunk = Arc::clone(&reader.version.chunks[number]);
        if !self.filter.keeps(number) {
            reader.counters.chunks_pruned.add(1);
            reader.counters.passed(chunk.rows);
            return Ok(async { Ok(stream::empty().boxed()) }.boxed());
        }
        self.ahead.opened(number, &reader.version, &reader.columns, &self.filter);
        Ok(async move { reader.read(&chunk).await }.boxed())
    }
}

impl Reader {
    /// Reads a chunk and returns its batches.
    async fn read(
        self: Arc<Self>,
        chunk: &Chunk,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        self.counters.chunks_scanned.add(1);
        let bytes = self.columns.iter().map(|column| chunk.columns[*column].len_bytes).sum();
        if self.columns.is_empty() {
            let batch = self.batch(Vec::new(), chunk.rows);
            return Ok(stream::iter([batch]).boxed());
        }
        if self.pins.would_exceed(bytes) {
            return self.read_copies(chunk).await;
        }
        let segments = self.fetch(chunk, 0..self.columns.len()).await?;
        let blocks = segments.first().map_or(0, Segment::blocks);
        let batches = (0..blocks).map(move |block| {
            let arrays = segments.iter().enumerate();
            let arrays = arrays.map(|(index, segment)| self.array(segment, index, block));
            let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
            let rows = arrays.first().map_or(0, |array| array.len());
            self.batch(arrays, rows)
        });
        Ok(stream::iter(batches).boxed())
    }

    /// Reads a chunk column by column, so that one page at a time is pinned, into copies.
    async fn read_copies(
        self: Arc<Self>,
        chunk: &Chunk,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        self.counters.chunks_copied.add(1);
        let mut blocks: Vec<Vec<ArrayRef>> = Vec::new();
        for index in 0..self.columns.len() {
            for segment in self.fetch(chunk, index..index + 1).await? {
                blocks.resize(segment.blocks(), Vec::with_capacity(self.columns.len()));
                for (block, arrays) in blocks.iter_mut().enumerate() {
                    arrays.push(copy(&self.array(&segment, index, block)?));
                }
            }
        }
        let batches = blocks.into_iter().map(move |arrays| {
            let rows = arrays.first().map_or(0, |array| array.len());
            self.batch(arrays, rows)
        });
        Ok(stream::iter(batches).boxed())
    }

    /// Fetches the segments of some of the columns.
    async fn fetch(&self, chunk: &Chunk, columns: Range<usize>) -> Result<Vec<Segment>> {
        let pages = chunk.pages(&self.columns[columns.clone()]);
        let tiers = pages.iter().map(|page| chunk.space().tier_of(*page));
        let origins: Vec<_> = tiers.map(Origin::of_tier).collect();
        let waiting = self.counters.time_waiting.timer();
        let pinned = chunk.space().fetch(&pages).await.map_err(pool_error)?;
        waiting.done();
        let opened = columns.zip(pinned).zip(origins).map(|((index, page), origin)| {
            let len_bytes = chunk.columns[self.columns[index]].len_bytes;
            self.counters.read(origin, to_usize(len_bytes));
            let bytes = Bytes::from_owner(self.pins.count(page));
            Segment::open_bytes(bytes, self.schema.field(index).data_type())
                .map_err(|source| self.malformed(index, source))
        });
        opened.collect()
    }

    fn array(&self, segment: &Segment, index: usize, block: usize) -> Result<ArrayRef> {
        segment.block(block).map_err(|source| self.malformed(index, source))
    }

    /// The projection of one block.
    fn batch(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        self.counters.passed(rows);
        match &self.projector {
            Some(projector) => projector.project_batch(&batch),
            None => Ok(batch),
        }
    }

    fn malformed(&self, index: usize, source: SegmentError) -> DataFusionError {
        let column = self.schema.field(index).name().clone();
        SqlError::Segment { table: self.table.to_string(), column, source }.into()
    }
}

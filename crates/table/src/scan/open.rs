//! Opener of chunks: prunes, fetches, and turns blocks into batches.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};

use super::counters::ScanCounters;
use super::options::ChunkNumber;
use super::prune::ChunkFilter;
use super::read::{Block, ChunkReader};
use super::readahead::ReadAhead;
use super::select::RowFilter;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::table::TableVersion;
use terrace_governor::error::pool_error;
use terrace_governor::pins::PagePins;

/// Opener of the chunks of one partition of a scan.
pub(super) struct ChunkOpener {
    reader: Arc<Reader>,
    filter: ChunkFilter,
    ahead: ReadAhead,
}

/// Reader of the chunks of a scan, which returns their blocks as batches.
struct Reader {
    version: Arc<TableVersion>,
    /// Columns that are read, in the order of the table.
    columns: Vec<usize>,
    chunks: Arc<ChunkReader>,
    /// Filter that selects the rows to decode.
    rows: Option<RowFilter>,
    /// `None` if the columns are returned unchanged.
    projector: Option<Projector>,
    counters: ScanCounters,
}

impl ChunkOpener {
    /// Builds the opener. `filters` are the filter of chunks, by their statistics, and that of
    /// rows.
    pub(super) fn new(
        table: Arc<str>,
        version: Arc<TableVersion>,
        projection: &ProjectionExprs,
        filters: (ChunkFilter, Option<&Arc<dyn PhysicalExpr>>),
        ahead: ReadAhead,
        pins: Arc<PagePins>,
        counters: ScanCounters,
    ) -> Result<Self> {
        let (filter, condition) = filters;
        let mut columns = projection.column_indices();
        columns.sort_unstable();
        columns.dedup();
        let chunks = ChunkReader::new(table, version.schema(), columns.clone(), pins)?;
        let chunks = Arc::new(chunks.counting(counters.clone()));
        let projector = projector(projection, &columns, chunks.schema())?;
        let rows = RowFilter::new(condition, version.schema(), &columns);
        let reader = Reader { version, columns, chunks, rows, projector, counters };
        Ok(Self { reader: Arc::new(reader), filter, ahead })
    }
}

/// Returns the projection over the columns that are read, unless it is the identity.
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
        chunk: &Arc<Chunk>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        self.counters.chunks_scanned.add(1);
        if self.columns.is_empty() {
            let batch = self.batch(Vec::new(), chunk.rows);
            return Ok(stream::iter([batch]).boxed());
        }
        let blocks = self.chunks.open(chunk).await.map_err(scan_error)?;
        let batches = stream::try_unfold((self, blocks), |(reader, mut blocks)| async move {
            let block = blocks.next_of(reader.rows.as_ref()).await.map_err(scan_error)?;
            let Some(Block { arrays, skipped }) = block else { return Ok(None) };
            reader.counters.passed(skipped);
            let rows = arrays.first().map_or(0, |array| array.len());
            let batch = reader.batch(arrays, rows)?;
            Ok(Some((batch, (reader, blocks))))
        });
        Ok(batches.boxed())
    }

    /// Returns the columns of a block as a batch, after the projection of the scan.
    fn batch(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(self.chunks.schema());
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        self.counters.passed(rows);
        match &self.projector {
            Some(projector) => projector.project_batch(&batch),
            None => Ok(batch),
        }
    }
}

fn scan_error(error: SqlError) -> DataFusionError {
    match error {
        SqlError::Pool(error) => pool_error(error),
        error => error.into(),
    }
}

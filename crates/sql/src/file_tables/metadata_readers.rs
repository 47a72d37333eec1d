//! Readers of Parquet files whose metadata is edited before DataFusion sees it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Edits the metadata of a file.
pub(super) type EditMetadata =
    Arc<dyn Fn(Arc<ParquetMetaData>) -> ParquetResult<Arc<ParquetMetaData>> + Send + Sync>;

/// Creates readers that return edited metadata.
pub(super) struct EditedReaders {
    stock: Arc<dyn ParquetFileReaderFactory>,
    edit: EditMetadata,
}

impl EditedReaders {
    /// The readers of `stock` with edited metadata.
    pub(super) fn new(stock: Arc<dyn ParquetFileReaderFactory>, edit: EditMetadata) -> Self {
        Self { stock, edit }
    }
}

impl fmt::Debug for EditedReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EditedReaders({:?})", self.stock)
    }
}

impl ParquetFileReaderFactory for EditedReaders {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let stock = self.stock.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(Box::new(EditedReader { stock, edit: Arc::clone(&self.edit) }))
    }
}

struct EditedReader {
    stock: Box<dyn AsyncFileReader + Send>,
    edit: EditMetadata,
}

impl AsyncFileReader for EditedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.stock.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.stock.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move { (self.edit)(self.stock.get_metadata(options).await?) }.boxed()
    }
}

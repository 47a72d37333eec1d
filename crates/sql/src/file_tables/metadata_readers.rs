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
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Words for the kind of an error, which say nothing.
const KIND: &str = "Parquet error: ";

/// Edits the metadata of a file.
pub(super) type EditMetadata =
    Arc<dyn Fn(Arc<ParquetMetaData>) -> ParquetResult<Arc<ParquetMetaData>> + Send + Sync>;

/// Creates readers that return edited metadata.
pub(super) struct EditedReaders {
    stock: Arc<dyn ParquetFileReaderFactory>,
    edit: EditMetadata,
    is_remote: bool,
}

impl EditedReaders {
    /// The readers of `stock`, whose files are remote or local, with edited metadata.
    pub(super) fn new(
        stock: Arc<dyn ParquetFileReaderFactory>,
        edit: EditMetadata,
        is_remote: bool,
    ) -> Self {
        Self { stock, edit, is_remote }
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
        let location = file.object_meta.location.to_string();
        let name = if self.is_remote { location } else { format!("/{location}") };
        let stock = self.stock.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(Box::new(EditedReader { stock, edit: Arc::clone(&self.edit), name }))
    }
}

struct EditedReader {
    stock: Box<dyn AsyncFileReader + Send>,
    edit: EditMetadata,
    /// The path or address, for errors.
    name: String,
}

impl EditedReader {
    /// An error that names the file.
    fn failed(name: &str, error: &ParquetError) -> ParquetError {
        let text = match error {
            ParquetError::General(text) | ParquetError::EOF(text) => text.clone(),
            error => error.to_string(),
        };
        let text = text.trim_start_matches(KIND);
        ParquetError::General(format!("cannot read {name}: {text}"))
    }
}

impl AsyncFileReader for EditedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let Self { stock, name, .. } = self;
        let read = stock.get_bytes(range);
        async { read.await.map_err(|error| Self::failed(name, &error)) }.boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        let Self { stock, name, .. } = self;
        let read = stock.get_byte_ranges(ranges);
        async { read.await.map_err(|error| Self::failed(name, &error)) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let read = self.stock.get_metadata(options).await;
            (self.edit)(read.map_err(|error| Self::failed(&self.name, &error))?)
        }
        .boxed()
    }
}

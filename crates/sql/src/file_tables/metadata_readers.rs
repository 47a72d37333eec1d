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

/// Names the file in an error of its bytes. Errors of other kinds, such as those of a store or of a
/// cancelled statement, stay what they are.
fn named(name: &str, error: ParquetError) -> ParquetError {
    match error {
        ParquetError::General(text) | ParquetError::EOF(text) => {
            // DataFusion names the file in errors of its footer, without the beginning of the path.
            let wrapped = text.strip_prefix("Failed to fetch metadata for file ");
            let text = wrapped.and_then(|text| text.split_once(KIND)).map_or(&*text, |it| it.1);
            let text = text.trim_start_matches(KIND);
            ParquetError::General(format!("cannot read {name}: {text}"))
        }
        error => error,
    }
}

impl AsyncFileReader for EditedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let Self { stock, name, .. } = self;
        let read = stock.get_bytes(range);
        async { read.await.map_err(|error| named(name, error)) }.boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        let Self { stock, name, .. } = self;
        let read = stock.get_byte_ranges(ranges);
        async { read.await.map_err(|error| named(name, error)) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let read = self.stock.get_metadata(options).await;
            (self.edit)(read.map_err(|error| named(&self.name, error))?)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_bytes_name_the_file_and_others_keep_their_kind() {
        let text = |error| named("/t/1.parquet", error).to_string();
        let footer = "Failed to fetch metadata for file t/1.parquet: Parquet error: Parquet error: \
                      Invalid Parquet file";
        let expected = "Parquet error: cannot read /t/1.parquet: Invalid Parquet file";
        assert_eq!(text(ParquetError::General(footer.to_owned())), expected);
        let short = ParquetError::EOF("2 bytes".to_owned());
        assert_eq!(text(short), "Parquet error: cannot read /t/1.parquet: 2 bytes");
        let cause = std::io::Error::other("cancelled");
        let kept = named("/t/1.parquet", ParquetError::External(Box::new(cause)));
        assert!(matches!(kept, ParquetError::External(_)), "{kept}");
    }
}

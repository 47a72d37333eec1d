//! Checkpoints of a log, which are Parquet.

use std::sync::Arc;

use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReaderBuilder,
};
use delta_kernel::engine::arrow_conversion::TryFromArrow as _;
use delta_kernel::engine::arrow_utils::{
    RowIndexBuilder, fixup_parquet_read, ordering_needs_row_indexes, parquet_read_plan,
};
use delta_kernel::engine::parquet_row_group_skipping::ParquetRowGroupSkipping as _;
use delta_kernel::engine::reader_options;
use delta_kernel::schema::{SchemaRef, StructType};
use delta_kernel::{
    EngineData, FileDataReadResultIterator, FileMeta, FileSize, KernelError, KernelResult,
    KernelResultIteratorStatic, ParquetFooter, ParquetHandler, PredicateRef,
};
use url::Url;

use super::log_files::{LogFiles, in_turn};
use crate::file_tables::found::FoundFile;
use crate::file_tables::parquet_file::FileChunks;

/// Reads checkpoints.
pub(super) struct Checkpoints(Arc<LogFiles>);

impl Checkpoints {
    /// Reads the checkpoints among these files.
    pub(super) fn new(files: Arc<LogFiles>) -> Self {
        Self(files)
    }
}

/// Opens a file and reads its footer.
fn open(file: &FoundFile) -> KernelResult<(FileChunks, ArrowReaderMetadata)> {
    let failed =
        |error: String| KernelError::generic(format!("cannot read {}: {error}", file.name()));
    let chunks = FileChunks::open(file).map_err(|error| failed(error.to_string()))?;
    let metadata = ArrowReaderMetadata::load(&chunks, reader_options());
    Ok((chunks, metadata.map_err(|error| failed(error.to_string()))?))
}

/// The actions of a checkpoint, a batch of them at a time. Groups of rows that the predicate rules
/// out are left out.
fn batches(
    files: &LogFiles,
    meta: &FileMeta,
    schema: &SchemaRef,
    predicate: Option<&PredicateRef>,
) -> KernelResult<FileDataReadResultIterator> {
    let file = files.file(meta)?;
    let (chunks, metadata) = open(&file)?;
    let (order, mask) = parquet_read_plan(schema, &metadata)?;
    let mut rows = ordering_needs_row_indexes(&order)
        .then(|| RowIndexBuilder::new(metadata.metadata().row_groups()));
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata);
    if let Some(mask) = mask {
        builder = builder.with_projection(mask);
    }
    if let Some(predicate) = predicate {
        builder = builder.with_row_group_filter(predicate, rows.as_mut());
    }
    let mut rows = rows.map(RowIndexBuilder::build).transpose()?;
    let reader = builder.build()?;
    let (name, url, schema) = (file.name(), meta.location.to_string(), Arc::clone(schema));
    Ok(Box::new(reader.map(move |batch| {
        let failed = |error| KernelError::generic(format!("cannot read {name}: {error}"));
        let batch = batch.map_err(failed)?;
        let data = fixup_parquet_read(batch, &order, rows.as_mut(), Some(&url), Some(&schema))?;
        Ok(Box::new(data) as Box<dyn EngineData>)
    })))
}

impl ParquetHandler for Checkpoints {
    fn read_parquet_files(
        &self,
        files: &[FileMeta],
        physical_schema: SchemaRef,
        predicate: Option<PredicateRef>,
    ) -> KernelResult<FileDataReadResultIterator> {
        let log = Arc::clone(&self.0);
        Ok(in_turn(files, move |file| batches(&log, file, &physical_schema, predicate.as_ref())))
    }

    fn write_parquet_file(
        &self,
        location: Url,
        _: KernelResultIteratorStatic<Box<dyn EngineData>>,
    ) -> KernelResult<FileSize> {
        let text = format!("cannot write {location}: delta_scan reads tables alone");
        Err(KernelError::generic(text))
    }

    fn read_parquet_footer(&self, file: &FileMeta) -> KernelResult<ParquetFooter> {
        let (_, metadata) = open(&self.0.file(file)?)?;
        let schema = StructType::try_from_arrow(metadata.schema().as_ref())?;
        Ok(ParquetFooter { schema: Arc::new(schema) })
    }
}

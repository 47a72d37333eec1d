//! `read_parquet`: Parquet files with columns of their names and directories, read by DataFusion.

use std::fs::File;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, exec_datafusion_err, plan_err};
use datafusion::datasource::file_format::parquet::transform_schema_to_view;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::reader::{ChunkReader, Length};
use datafusion::physical_plan::ExecutionPlan;
use object_store::ObjectMeta;
use object_store::path::Path as StorePath;
use terrace_cloud::{CloudReader, STORE_URL};
use terrace_sys::size::to_u64;

use super::arguments::Arguments;
use super::constants::Constants;
use super::float_bounds::{BoundlessReaders, without_float_bounds};
use super::found::{FoundFile, RemoteFile};
use super::read_csv::{SharedOptions, files};

/// Names of the options, for errors.
const OPTIONS: &str =
    "filename, hive_partitioning, hive_types_autocast, union_by_name and binary_as_string";

/// A table of Parquet files.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    files: Vec<PartitionedFile>,
    /// The store of the files.
    store: ObjectStoreUrl,
    schema: TableSchema,
    statistics: Statistics,
}

/// A file with its footer.
struct Opened {
    file: FoundFile,
    footer: ArrowReaderMetadata,
    schema: SchemaRef,
}

/// The table of a call of `read_parquet`.
///
/// # Errors
/// Unknown options, values of other types, missing files, and errors of the files.
pub(super) fn table(
    mut arguments: Arguments,
    _types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    if arguments.boolean("binary_as_string")? == Some(true) {
        return plan_err!(
            "the option binary_as_string is not supported; convert the column, as in \
             CAST(column AS VARCHAR)"
        );
    }
    let shared = SharedOptions::take(&mut arguments)?;
    arguments.finish(OPTIONS)?;
    if shared.compression.is_some_and(|compression| compression.is_compressed()) {
        return plan_err!("Parquet files name their compression themselves; leave it out");
    }
    of_files(files(&arguments.paths, &arguments.cloud)?, &shared)
}

/// The table of Parquet files.
///
/// # Errors
/// Errors of the files.
pub(super) fn of_files(
    files: Vec<FoundFile>,
    shared: &SharedOptions,
) -> Result<Arc<dyn TableProvider>> {
    let constants = Constants::of(&files, &shared.constants)?;
    let opened = files.into_iter().map(Opened::new).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ParquetTable::new(opened, constants, shared.is_united)?))
}

/// Reads the footer of a file.
///
/// # Errors
/// Errors of the file, such as another format.
pub(super) fn footer(file: &FoundFile) -> Result<ArrowReaderMetadata> {
    let failed = |error: String| exec_datafusion_err!("cannot read {}: {error}", file.name());
    let options = ArrowReaderOptions::new();
    let loaded = match &file.remote {
        Some(remote) => ArrowReaderMetadata::load(&RemoteChunks(remote), options),
        None => {
            let opened = File::open(&file.path).map_err(|error| failed(error.to_string()))?;
            ArrowReaderMetadata::load(&opened, options)
        }
    };
    loaded.map_err(|error| failed(error.to_string()))
}

/// Gives the reader of Parquet footers access to the bytes of a remote file.
struct RemoteChunks<'a>(&'a RemoteFile);

impl Length for RemoteChunks<'_> {
    fn len(&self) -> u64 {
        self.0.file.bytes
    }
}

impl ChunkReader for RemoteChunks<'_> {
    type T = CloudReader;

    fn get_read(&self, start: u64) -> ParquetResult<CloudReader> {
        Ok(CloudReader::new(&self.0.files, &self.0.file, start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let end = start.saturating_add(to_u64(length));
        let read = self.0.files.read(&self.0.file, start..end);
        let bytes = read.map_err(|error| ParquetError::External(Box::new(error)))?;
        if bytes.len() != length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start}, beyond the end")));
        }
        Ok(bytes)
    }
}

impl Opened {
    fn new(file: FoundFile) -> Result<Self> {
        let footer = footer(&file)?;
        let schema = transform_schema_to_view(footer.schema());
        // Metadata of writers differ from file to file and mean nothing here.
        let schema = Arc::new(schema.with_metadata(Default::default()));
        Ok(Self { file, footer, schema })
    }
}

impl ParquetTable {
    fn new(opened: Vec<Opened>, constants: Constants, is_united: bool) -> Result<Self> {
        let keys: Vec<FieldRef> = constants.fields.iter().cloned().map(Arc::new).collect();
        let is_key = |name: &str| keys.iter().any(|key| key.name() == name);
        let schema = common_schema(&opened, is_united)?;
        let store = store_of(&opened)?;
        let fields = schema.fields().iter().filter(|field| !is_key(field.name()));
        let schema: SchemaRef = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        let table_schema =
            TableSchema::builder(Arc::clone(&schema)).with_table_partition_cols(keys).build();
        let mut statistics = Statistics::new_unknown(table_schema.table_schema());
        statistics.num_rows = Precision::Exact(0);
        statistics.total_byte_size = Precision::Inexact(0);
        let mut files = vec![];
        for (opened, values) in opened.into_iter().zip(constants.values) {
            let metadata = without_float_bounds(Arc::clone(opened.footer.metadata()))?;
            let of_file = DFParquetMetadata::statistics_from_parquet_metadata(&metadata, &schema)?;
            statistics.num_rows = statistics.num_rows.add(&of_file.num_rows);
            statistics.total_byte_size =
                statistics.total_byte_size.add(&of_file.total_byte_size).to_inexact();
            let file = PartitionedFile::new_from_meta(meta(&opened.file)?);
            let file = file.with_partition_values(values).with_statistics(Arc::new(of_file));
            files.push(file);
        }
        Ok(Self { files, store, schema: table_schema, statistics })
    }
}

/// The store of files, which must all be remote or all be local.
fn store_of(opened: &[Opened]) -> Result<ObjectStoreUrl> {
    let is_remote = |opened: &Opened| opened.file.remote.is_some();
    match (opened.iter().any(is_remote), opened.iter().all(is_remote)) {
        (true, true) => ObjectStoreUrl::parse(STORE_URL),
        (true, false) => plan_err!(
            "files of this machine and of others are not one table; read them by UNION ALL"
        ),
        (false, _) => Ok(ObjectStoreUrl::local_filesystem()),
    }
}

/// The columns of all files, if they are united; else those of the first file, which all must have.
fn common_schema(opened: &[Opened], is_united: bool) -> Result<SchemaRef> {
    if is_united {
        let merged = Schema::try_merge(opened.iter().map(|it| it.schema.as_ref().clone()))?;
        // A file may lack any column.
        let fields = merged.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        return Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
    }
    let Some((first, others)) = opened.split_first() else {
        return Ok(Arc::new(Schema::empty()));
    };
    for other in others {
        let lacks = |name: &str| other.schema.column_with_name(name).is_none();
        let missing = first.schema.fields().iter().find(|field| lacks(field.name()));
        if let Some(missing) = missing {
            return plan_err!(
                "{} has other columns than {}: it lacks {}; say union_by_name = true to read the \
                 columns of all files",
                other.file.name(),
                first.file.name(),
                missing.name()
            );
        }
    }
    Ok(Arc::clone(&first.schema))
}

/// The file as an object of DataFusion's store of local files, or of the store of remote ones.
fn meta(file: &FoundFile) -> Result<ObjectMeta> {
    if let Some(remote) = &file.remote {
        return Ok(remote.file.object());
    }
    let failed = |error: String| exec_datafusion_err!("cannot read {}: {error}", file.name());
    let path = std::path::absolute(&file.path).map_err(|error| failed(error.to_string()))?;
    let location =
        StorePath::from_absolute_path(path).map_err(|error| failed(error.to_string()))?;
    let modified = std::fs::metadata(&file.path).and_then(|metadata| metadata.modified());
    let last_modified: DateTime<Utc> = modified.map_or(DateTime::UNIX_EPOCH, DateTime::from);
    Ok(ObjectMeta { location, last_modified, size: file.bytes, e_tag: None, version: None })
}

#[async_trait]
impl TableProvider for ParquetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.clone())
    }

    /// Returns `Inexact` for each filter: DataFusion pushes it down again as a physical one, which
    /// prunes files and row groups.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = state.default_table_options().parquet;
        let runtime = state.runtime_env();
        let store = runtime.object_store(self.store.clone())?;
        let known = runtime.cache_manager.get_file_metadata_cache();
        let readers = Arc::new(CachedParquetFileReaderFactory::new(store, known));
        let readers = Arc::new(BoundlessReaders::new(readers));
        let hint = options.global.metadata_size_hint;
        let source = ParquetSource::new(self.schema.clone())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(readers);
        let source = Arc::new(match hint {
            Some(bytes) => source.with_metadata_size_hint(bytes),
            None => source,
        });
        let groups = FileGroup::new(self.files.clone());
        let groups = groups.split_files(state.config().target_partitions());
        let config = FileScanConfigBuilder::new(self.store.clone(), source)
            .with_file_groups(groups)
            .with_statistics(self.statistics.clone())
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

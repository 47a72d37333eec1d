//! `read_parquet`: Parquet files with columns of their names and directories, read by DataFusion.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::datasource::file_format::parquet::transform_schema_to_view;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use datafusion::physical_plan::ExecutionPlan;

use super::arguments::Arguments;
use super::constants::Constants;
use super::float_bounds::without_float_bounds;
use super::found::FoundFile;
use super::parquet_file::{footer, object};
use super::parquet_scan::{ParquetScan, store_of};
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
        let store = common_store(&opened)?;
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
            let file = PartitionedFile::new_from_meta(object(&opened.file)?);
            let file = file.with_partition_values(values).with_statistics(Arc::new(of_file));
            files.push(file);
        }
        Ok(Self { files, store, schema: table_schema, statistics })
    }
}

/// The store of files, which must all be remote or all be local.
fn common_store(opened: &[Opened]) -> Result<ObjectStoreUrl> {
    let is_remote = |opened: &Opened| opened.file.remote.is_some();
    match (opened.iter().any(is_remote), opened.iter().all(is_remote)) {
        (true, false) => plan_err!(
            "files of this machine and of others are not one table; read them by UNION ALL"
        ),
        (any, _) => store_of(any),
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
        let scan = ParquetScan {
            files: self.files.clone(),
            store: self.store.clone(),
            schema: self.schema.clone(),
            statistics: self.statistics.clone(),
        };
        let edit = Arc::new(without_float_bounds);
        scan.plan(state, options, edit, projection.cloned(), limit)
    }
}

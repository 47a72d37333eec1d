//! A version of a Delta table, as a table of the planner.

use std::io::ErrorKind;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, Statistics, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use super::bounds::Bounds;
use super::columns::Columns;
use super::data_files::{DataFile, DataFiles};
use super::deletions::left;
use super::engine::LogEngine;
use super::location::{Location, file_of};
use super::snapshot::{Moment, snapshot};
use crate::file_tables::found::FoundFile;
use crate::file_tables::parquet_file::{footer, object};
use crate::file_tables::parquet_scan::{ParquetScan, store_of};

/// A version of a Delta table.
#[derive(Debug)]
pub(crate) struct DeltaTable {
    location: Location,
    engine: LogEngine,
    columns: Columns,
    data: DataFiles,
}

/// Memory of the deleted rows of a file, as long as the plan has the file.
struct HeldDeletions(#[expect(dead_code, reason = "it is held")] MemoryReservation);

impl DeltaTable {
    /// Reads the log of a table.
    ///
    /// # Errors
    /// A directory without a log, versions that do not exist, features and types that are not
    /// supported, and errors of the files.
    pub(super) fn open(
        location: Location,
        moment: &Moment,
        filename: Option<&str>,
    ) -> Result<Self> {
        let engine = LogEngine::new(&location.cloud);
        let snapshot = snapshot(&location, &engine, moment)?;
        let columns = Columns::of(&location.name, &snapshot, filename)?;
        let data = DataFiles::of(&location.name, &snapshot, &columns, &engine)?;
        Ok(Self { location, engine, columns, data })
    }

    /// The statistics of files.
    fn statistics_of<'a>(&self, files: impl Iterator<Item = &'a DataFile>) -> Statistics {
        let mut statistics = Statistics::new_unknown(self.columns.files.table_schema());
        let (mut rows, mut bytes) = (Some(0_u64), 0_u64);
        for file in files {
            rows = rows.zip(file.rows_left()).map(|(rows, more)| rows.saturating_add(more));
            bytes = bytes.saturating_add(file.bytes);
        }
        let rows = rows.and_then(|rows| usize::try_from(rows).ok());
        statistics.num_rows = rows.map_or(Precision::Absent, Precision::Exact);
        let bytes = usize::try_from(bytes).ok();
        statistics.total_byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
        statistics
    }

    /// The file of this machine or another one.
    fn found(&self, file: &DataFile) -> Result<FoundFile> {
        let (name, path) = (&self.location.name, &file.path);
        let url = self.location.root.join(path).map_err(|error| {
            plan_datafusion_err!("Delta table {name} has a file '{path}': {error}")
        })?;
        let found = file_of(&self.location.cloud, &url, file.bytes, file.modified)?;
        if found.remote.is_some() != self.location.is_remote() {
            return plan_err!(
                "Delta table {name} has a file of another machine, {url}; let the engine that \
                 wrote the table copy its files to the directory (DEEP CLONE)"
            );
        }
        if found.remote.is_none() {
            check(name, &found)?;
        }
        Ok(found)
    }

    /// A file with its constants and the rows that are left of it.
    fn partitioned(&self, file: &DataFile, state: &dyn Session) -> Result<PartitionedFile> {
        let name = &self.location.name;
        let found = self.found(file)?;
        let mut values = file.values.clone();
        if self.columns.has_filename {
            values.push(ScalarValue::Utf8View(Some(found.name())));
        }
        let planned = PartitionedFile::new_from_meta(object(&found)?);
        let planned = planned.with_partition_values(values);
        if !file.deletions.has_vector() {
            return Ok(planned);
        }
        let rows = match file.rows {
            Some(rows) => rows,
            None => rows_of(&found)?,
        };
        let Some(left) = left(name, &self.location.root, &self.engine, file, rows)? else {
            return Ok(planned);
        };
        let pool = &state.runtime_env().memory_pool;
        let memory = MemoryConsumer::new("DeltaDeletions").register(pool);
        memory.try_grow(left.bytes)?;
        let planned = planned.with_extension(HeldDeletions(memory));
        Ok(planned.with_extension(ParquetRowSelection::new(left.rows)))
    }
}

/// Refuses a data file of this machine that is not there, or has another length than in the log.
fn check(name: &str, file: &FoundFile) -> Result<()> {
    let path = file.path.display();
    match std::fs::metadata(&file.path) {
        Ok(found) if found.is_file() && found.len() == file.bytes => Ok(()),
        Ok(found) => plan_err!(
            "a data file of Delta table {name} is damaged: {path} has {} bytes, and the log says \
             {}; restore it",
            found.len(),
            file.bytes
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => plan_err!(
            "Delta table {name} lacks its data file {path}: if VACUUM has removed the files of \
             this version, read a newer one; else restore it"
        ),
        Err(error) => plan_err!("cannot read {path}, of Delta table {name}: {error}"),
    }
}

/// The number of rows of a file.
fn rows_of(file: &FoundFile) -> Result<u64> {
    let rows = footer(file)?.metadata().file_metadata().num_rows();
    u64::try_from(rows).map_err(|_| plan_datafusion_err!("{} has {rows} rows", file.name()))
}

#[async_trait]
impl TableProvider for DeltaTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let of_files = self.statistics_of(self.data.files.iter());
        let mut statistics = Statistics::new_unknown(&self.columns.schema);
        statistics.num_rows = of_files.num_rows;
        statistics.total_byte_size = of_files.total_byte_size;
        Some(statistics)
    }

    /// Filters leave files out here. They are pushed down again as physical ones, which leave out
    /// groups of rows.
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
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = Bounds::new(&self.columns, &self.data).kept(filters, state)?;
        let kept = self.data.files.iter().zip(kept).filter_map(|(file, kept)| kept.then_some(file));
        let kept: Vec<&DataFile> = kept.collect();
        if kept.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(self.columns.schema.project(columns)?),
                None => self.schema(),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let files = kept.iter().map(|file| self.partitioned(file, state));
        let mut files = files.collect::<Result<Vec<_>>>()?;
        // Only for files with statistics does DataFusion try to leave out those whose partition a
        // join has no row for.
        let unknown = Arc::new(Statistics::new_unknown(self.columns.files.table_schema()));
        files.iter_mut().for_each(|file| file.statistics = Some(Arc::clone(&unknown)));
        let scan = ParquetScan {
            files,
            store: store_of(self.location.is_remote())?,
            schema: self.columns.files.clone(),
            statistics: self.statistics_of(kept.iter().copied()),
        };
        let mut options = state.default_table_options().parquet;
        // Spark has written instants as INT96, in UTC.
        options.global.coerce_int96 = Some("us".to_owned());
        options.global.coerce_int96_tz = Some("UTC".to_owned());
        let places = self.columns.places(projection);
        scan.plan(state, options, self.columns.names.edit(), Some(places), limit)
    }
}

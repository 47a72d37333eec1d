//! Tables of CSV, JSON and other files that this module reads itself.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::constants::Constants;
use super::scan::{FileScanExec, Files, Origin};

/// Minimum total length of the files, in bytes, for a scan by all partitions; one partition scans
/// shorter files.
const PARALLEL_BYTES: u64 = 1 << 20;

/// A table over the rows of files of one format.
#[derive(Debug)]
pub(crate) struct FileTable {
    files: Arc<dyn Files>,
    schema: SchemaRef,
    origins: Vec<Origin>,
    rows: usize,
    bytes: u64,
}

impl FileTable {
    /// A table of the `columns` of the files, then of those of `constants`; a constant column
    /// replaces the column of the same name. `rows` is an estimate.
    pub(super) fn new(
        files: Arc<dyn Files>,
        columns: Vec<Field>,
        constants: &Constants,
        rows: u64,
        bytes: u64,
    ) -> Self {
        let origins = (0..columns.len()).map(Origin::File);
        let mut all: Vec<(Field, Origin)> = columns.into_iter().zip(origins).collect();
        for (place, field) in constants.fields.iter().enumerate() {
            let column = (field.clone(), Origin::Constant(place));
            match all.iter_mut().find(|(known, _)| known.name() == field.name()) {
                Some(known) => *known = column,
                None => all.push(column),
            }
        }
        let (fields, origins): (Vec<_>, _) = all.into_iter().unzip();
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        Self { files, schema: Arc::new(Schema::new(fields)), origins, rows, bytes }
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (schema, origins) = match projection {
            Some(columns) => {
                let origins = columns.iter().map(|column| self.origins[*column]).collect();
                (Arc::new(self.schema.project(columns)?), origins)
            }
            None => (Arc::clone(&self.schema), self.origins.clone()),
        };
        let partitions = match self.bytes >= PARALLEL_BYTES {
            true => state.config().target_partitions(),
            false => 1,
        };
        let files = Arc::clone(&self.files);
        let rows = Precision::Inexact(self.rows);
        Ok(Arc::new(FileScanExec::new(files, schema, origins, partitions, limit, rows)))
    }
}

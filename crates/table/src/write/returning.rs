//! RETURNING: values of the rows that a statement has changed.
//!
//! They are stored in pages of the query until the statement is complete, and committed if it is a
//! transaction by itself; then the client gets them.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::array::RecordBatchOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use futures::Stream;
use futures::stream;
use terrace_exec::{QueryExtension, StoredBatches};
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use super::checks::Checks;
use crate::error::SqlError;

/// The columns that a statement returns: expressions over the columns of its table.
#[derive(Clone, Debug)]
pub struct ReturnedColumns {
    /// The expressions.
    pub values: Arc<[Arc<dyn PhysicalExpr>]>,
    /// One nullable column for each expression.
    pub schema: SchemaRef,
}

/// Store of the values that a statement returns. Clones share the store.
#[derive(Clone)]
pub struct Returning {
    columns: ReturnedColumns,
    rows: Arc<Mutex<Option<StoredBatches>>>,
}

/// Constraints on the rows that a statement writes, and the store of the values that it returns.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Constraints that the new rows must satisfy.
    pub checks: Checks,
    /// Store of the values that the statement returns.
    pub returning: Option<Returning>,
}

impl Returning {
    /// Creates an empty store in the memory of the query that `context` belongs to.
    ///
    /// # Errors
    /// If the context has no such memory.
    pub(super) fn new(columns: &ReturnedColumns, context: &TaskContext) -> Result<Self> {
        let memory = QueryExtension::find(context)?;
        let rows = StoredBatches::new(memory.as_ref(), "Returning", &columns.schema);
        Ok(Self { columns: columns.clone(), rows: Arc::new(Mutex::new(Some(rows))) })
    }

    /// Evaluates the expressions on changed rows, and adds their values.
    ///
    /// # Errors
    /// Errors of the expressions and of the store.
    pub(super) fn add(&self, rows: &RecordBatch) -> Result<(), SqlError> {
        let values = self.columns.values.iter();
        let values = values.map(|value| value.evaluate(rows)?.into_array(rows.num_rows()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let (schema, values) = (Arc::clone(&self.columns.schema), values.collect::<Result<_>>()?);
        let values = RecordBatch::try_new_with_options(schema, values, &options)?;
        if let Some(rows) = lock(&self.rows).as_mut() {
            rows.append(values)?;
        }
        Ok(())
    }

    /// Returns the stored rows, which no more are added to.
    pub(super) fn into_rows(self) -> impl Stream<Item = Result<RecordBatch>> {
        let rows = lock(&self.rows).take();
        stream::try_unfold((rows, 0), |(rows, next)| async move {
            let Some(stored) = &rows else { return Ok(None) };
            let Some((first, batch)) = stored.batch_with(next).await? else { return Ok(None) };
            let next = first + to_u64(batch.num_rows());
            Ok(Some((batch, (rows, next))))
        })
    }
}

impl From<Checks> for Terms {
    fn from(checks: Checks) -> Self {
        Self { checks, returning: None }
    }
}

impl fmt::Debug for Returning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returning").field("columns", &self.columns.schema).finish_non_exhaustive()
    }
}

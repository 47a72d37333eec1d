//! Statements that replace rows of a table by rows of a query.
//!
//! Rows that another session commits between such a statement's snapshot and its own commit would
//! be lost along with the rows that the statement replaces. So it locks the table first, and runs
//! against the version that is then current: as planned if that is still the version of its
//! snapshot, planned again otherwise. Other writers of the table wait until it ends; readers do
//! not. In a transaction block, it runs against the version that the transaction sees, and
//! statements of other sessions that only append rows do not wait.

use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use terrace_table::catalog::Catalog;
use terrace_table::error::SqlError;
use terrace_table::table::{Table, TableVersion};
use terrace_table::transaction::{Rewrite, Scope};
use terrace_table::write::Checks;

use super::{checks, snapshot};
use crate::provider::StoredTable;

/// A planned query whose rows change a table that it may also read.
pub(super) struct Exclusive {
    catalog: Arc<Catalog>,
    state: SessionState,
    logical: LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
    table: Arc<Table>,
    version: Arc<TableVersion>,
}

/// A started query, and the table that it changes, locked against other rewrites.
pub(super) struct Begun {
    /// The locked table, and the version that the rows are read from.
    pub(super) rewrite: Rewrite,
    pub(super) rows: SendableRecordBatchStream,
    /// The constraints of the table.
    pub(super) checks: Checks,
}

impl Exclusive {
    /// Plans `logical`, whose rows change `target`.
    ///
    /// # Errors
    /// Errors of planning.
    pub(super) async fn new(
        catalog: Arc<Catalog>,
        state: SessionState,
        logical: LogicalPlan,
        target: &StoredTable,
    ) -> Result<Self> {
        let physical = state.create_physical_plan(&logical).await?;
        let (table, version) = (Arc::clone(target.table()), target.version());
        Ok(Self { catalog, state, logical, physical, table, version })
    }

    /// The physical plan of the query under the statement's snapshot.
    pub(super) fn physical(&self) -> &Arc<dyn ExecutionPlan> {
        &self.physical
    }

    /// Locks the table and starts the plan against the version that is then current.
    ///
    /// # Errors
    /// [`SqlError::Dropped`] if the table is gone or has other columns; errors of planning, and of
    /// a transaction that conflicts with another.
    pub(super) async fn begin(&self, context: Arc<TaskContext>) -> Result<Begun, SqlError> {
        let scope = Scope::of(&context);
        let (schema, name) = (self.table.schema_name(), self.table.name());
        let rewrite = scope.rewrite_named(&self.catalog, schema, name).await?;
        let physical = if Arc::ptr_eq(rewrite.version(), &self.version) {
            Arc::clone(&self.physical)
        } else {
            let plan = snapshot::repin(self.logical.clone(), &scope.snapshot(&self.catalog)?)?;
            Box::pin(self.state.create_physical_plan(&plan)).await?
        };
        let checks = checks::compiled(&self.state, rewrite.table())?;
        let rows = execute_stream(physical, context)?;
        Ok(Begun { rewrite, rows, checks })
    }
}

/// The stored table behind a table source.
pub(super) fn stored_table(source: &Arc<dyn TableSource>) -> Result<StoredTable> {
    let provider = source_as_provider(source)?;
    if let Some(stored) = provider.downcast_ref::<StoredTable>() {
        return Ok(stored.at(Some(stored.version())));
    }
    Err(exec_datafusion_err!(
        "rows of an external table cannot be changed; its file can be replaced"
    ))
}

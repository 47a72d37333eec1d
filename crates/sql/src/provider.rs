//! Table provider: a stored table for DataFusion's planner.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::{DFSchema, Result, Statistics, exec_err};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::cast;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use futures::FutureExt as _;
use terrace_governor::pins::Reader;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::scan;
use terrace_table::table::{Table, TableVersion};
use terrace_table::write::{self, Assignment, CountExec, Required};

use crate::engine::EngineState;

/// A stored table in a session, as of one version. In a prepared statement it has no version, and
/// is resolved at each run.
#[derive(Debug)]
pub(crate) struct StoredTable {
    table: Arc<Table>,
    version: Option<Arc<TableVersion>>,
    engine: Arc<EngineState>,
    /// True if a view reads it, with the rights of the view's owner.
    is_granted: bool,
}

impl StoredTable {
    /// The table of this name in a snapshot.
    pub(crate) fn find(
        engine: &Arc<EngineState>,
        snapshot: &Snapshot,
        schema: &str,
        name: &str,
    ) -> Option<Self> {
        let (table, version) = snapshot.table(schema, name)?;
        let (version, engine) = (Some(version), Arc::clone(engine));
        Some(Self { table, version, engine, is_granted: false })
    }

    /// Marks the table as read by a view, whose owner may read it.
    pub(crate) fn granted(self) -> Self {
        Self { is_granted: true, ..self }
    }

    /// True for a table that a view reads with the rights of its owner.
    pub(crate) fn is_granted(&self) -> bool {
        self.is_granted
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The version to read.
    pub(crate) fn version(&self) -> Arc<TableVersion> {
        self.version.clone().unwrap_or_else(|| self.table.snapshot())
    }

    /// The same table as of `version`; with `None`, each use reads the version of that time.
    pub(crate) fn at(&self, version: Option<Arc<TableVersion>>) -> Self {
        let (table, engine) = (Arc::clone(&self.table), Arc::clone(&self.engine));
        Self { table, version, engine, is_granted: self.is_granted }
    }

    /// The same table as of its version. A table of a prepared statement, which has no version,
    /// becomes the table of its name in `snapshot`, if that has the same columns.
    pub(crate) fn resolved(&self, snapshot: &Snapshot) -> Result<Self> {
        match self.version {
            Some(_) => Ok(self.at(self.version.clone())),
            None => self.as_of(snapshot),
        }
    }

    /// The table of this name in `snapshot`, as of that snapshot.
    ///
    /// # Errors
    /// If there is none, or if its columns differ.
    pub(crate) fn as_of(&self, snapshot: &Snapshot) -> Result<Self> {
        let (schema, name) = (self.table.schema_name(), self.table.name());
        let found = Self::find(&self.engine, snapshot, schema, name);
        let found = found.filter(|found| found.table.schema() == self.table.schema());
        let dropped = || SqlError::Dropped { name: self.table.full_name() };
        Ok(Self { is_granted: self.is_granted, ..found.ok_or_else(dropped)? })
    }
}

#[async_trait]
impl TableProvider for StoredTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.version().statistics().as_ref().clone())
    }

    /// Returns `Inexact` for each filter: DataFusion pushes it down again as a physical one, which
    /// prunes chunks, and filters rows above the scan.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let partitions = state.config().target_partitions();
        let mut options = self.engine.scan_options(partitions);
        if let Some(reader) = state.config().get_extension::<Reader>() {
            options.pins = options.pins.for_reader(reader);
        }
        let current = self.resolved(&self.engine.catalog().snapshot())?;
        scan::plan(&current.table, current.version(), projection, limit, &options)
    }

    async fn insert_into(
        &self,
        _state: &dyn CatalogSession,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.table.properties().checks.is_empty() {
            // Constraints are compiled where a statement is planned; this plan is one of EXPLAIN.
            let what = format!("InsertExec: table={}", self.table.full_name());
            return Ok(CountExec::plan(what, |_| {
                let refused = exec_err!(
                    "EXPLAIN ANALYZE does not run INSERT into a table with CHECK constraints; \
                     say EXPLAIN"
                );
                async { refused }.boxed()
            }));
        }
        write::insert_plan(&self.table, input, insert_op, Required::default())
    }

    async fn delete_from(
        &self,
        state: &dyn CatalogSession,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(shown(write::delete_plan(&self.table, self.filter(state, filters)?, None).as_ref()))
    }

    async fn update(
        &self,
        state: &dyn CatalogSession,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = self.filter(state, filters)?;
        let assignments = assignments.into_iter().map(|(name, value)| {
            let column = self.table.schema().index_of(&name)?;
            let value = self.physical(state, value)?;
            let data_type = self.table.schema().field(column).data_type().clone();
            let value = cast(value, self.table.schema(), data_type)?;
            Ok(Assignment { column, value })
        });
        let assignments = assignments.collect::<Result<_>>()?;
        let plan = write::update_plan(&self.table, assignments, filter, Required::default());
        Ok(shown(plan.as_ref()))
    }

    async fn truncate(&self, _state: &dyn CatalogSession) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(write::truncate_plan(&self.table))
    }
}

/// A DELETE or UPDATE within EXPLAIN: it can be displayed but not run, because it lacks conditions
/// that DataFusion's optimizer has dropped.
fn shown(plan: &dyn ExecutionPlan) -> Arc<dyn ExecutionPlan> {
    let what = displayable(plan).one_line().to_string();
    CountExec::plan(what.trim().to_owned(), |_| {
        let refused = exec_err!("EXPLAIN ANALYZE does not run DELETE or UPDATE; say EXPLAIN");
        async { refused }.boxed()
    })
}

impl StoredTable {
    /// Plans an expression over the rows of the table.
    fn physical(
        &self,
        state: &dyn CatalogSession,
        expression: Expr,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(Arc::clone(self.table.schema()))?;
        state.create_physical_expr(expression, &schema)
    }

    /// The conjunction of `filters`; `None` without filters.
    fn filter(
        &self,
        state: &dyn CatalogSession,
        filters: Vec<Expr>,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        conjunction(filters).map(|filter| self.physical(state, filter)).transpose()
    }
}

//! Physical plans of the parts of a statement.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{LogicalPlan, WriteOp};
use terrace_governor::pins::Reader;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;

use super::super::exclusive::stored_table;
use super::super::options::TableOptions;
use super::super::refusal::refused;
use super::super::returning::{self, ReturningNode};
use super::super::snapshot;
use super::super::state::{Planned, Session};
use super::node::of;
use super::run::{Open, PartExec, PartsExec};
use crate::access::check_plan;
use crate::interrupt;

/// Name of the statement behind the WITH in EXPLAIN.
const MAIN: &str = "the statement behind WITH";

impl Session {
    /// Locks the tables whose rows the parts of a statement rewrite, and plans the parts as of the
    /// snapshot of then. A new table of the statement gets `options`.
    ///
    /// # Errors
    /// Errors of planning; [`SqlError::Refused`] for two parts that rewrite rows of one table;
    /// [`SqlError::Conflict`], [`SqlError::Deadlock`], [`SqlError::LockTimeout`].
    pub(in super::super) async fn plan_together(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        snapshot: &Snapshot,
        scope: &Scope,
        options: Option<TableOptions>,
    ) -> Result<Planned, SqlError> {
        let catalog = self.engine.catalog();
        let plan = snapshot::pin(plan, snapshot)?;
        // Rights are checked before a lock can be waited for.
        check_plan(&plan, &self.rights(snapshot))?;
        let open = Open::begin(catalog, scope)?;
        let within = open.scope();
        let tables = rewritten(&plan)?;
        let locked = lock(&tables, &within);
        match state.config().get_extension::<Reader>() {
            Some(reader) => interrupt::wait(&reader, locked).await?,
            None => locked.await?,
        }
        let current = within.snapshot(catalog)?;
        let plan = snapshot::repin(plan, &current)?;
        self.planned_parts(state, &plan, &current, Some(open), options).await
    }

    /// Plans the parts of a statement that is only shown.
    ///
    /// # Errors
    /// Errors of planning; [`SqlError::Refused`] as [`Session::plan_together`] has it.
    pub(in super::super) async fn plan_shown(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        snapshot: &Snapshot,
    ) -> Result<Planned, SqlError> {
        rewritten(&plan)?;
        self.planned_parts(state, &plan, snapshot, None, None).await
    }

    async fn planned_parts(
        &self,
        state: SessionState,
        plan: &LogicalPlan,
        snapshot: &Snapshot,
        open: Option<Open>,
        options: Option<TableOptions>,
    ) -> Result<Planned, SqlError> {
        let Some(node) = of(plan) else {
            return Err(SqlError::Task("a statement of several parts has one".to_owned()));
        };
        let mut parts = Vec::with_capacity(node.parts.len());
        for part in &node.parts {
            let planned = self.pinned_plan(state.clone(), part.plan.clone(), snapshot).await?;
            parts.push((PartExec::new(part.name.clone(), planned), part.rows.clone()));
        }
        let is_definition = node.is_definition();
        let main = match (&node.main, options, &open) {
            (LogicalPlan::Ddl(definition), Some(options), Some(open)) => {
                let (definition, within) = (definition.clone(), open.scope());
                Box::pin(self.define(&state, snapshot, definition, options, &within)).await?
            }
            (main, ..) => self.pinned_plan(state, main.clone(), snapshot).await?,
        };
        let main = PartExec::new(MAIN.to_owned(), main);
        let plan = Arc::new(PartsExec::new(parts, main, is_definition, open));
        Ok(Planned { watched: Some(Arc::clone(&plan) as _), plan })
    }
}

/// Waits for the locks of tables, which the transaction of `scope` holds from then on.
///
/// # Errors
/// [`SqlError::Conflict`], [`SqlError::Deadlock`], [`SqlError::LockTimeout`].
async fn lock(tables: &[Arc<Table>], scope: &Scope) -> Result<(), SqlError> {
    for table in tables {
        drop(scope.rewrite(table).await?);
    }
    Ok(())
}

/// The tables whose rows the parts of a statement rewrite, in the order of their numbers.
///
/// # Errors
/// [`SqlError::Refused`] for a table of files, and for one whose rows two parts rewrite: they would
/// have to change the rows that the other has changed.
fn rewritten(plan: &LogicalPlan) -> Result<Vec<Arc<Table>>, SqlError> {
    let mut tables = BTreeMap::new();
    for plan in plan.inputs() {
        let change = returning::of(plan).map_or(plan, ReturningNode::change);
        let LogicalPlan::Dml(change) = change else { continue };
        let Ok(target) = stored_table(&change.target) else {
            let what = format!("a change of {} beside others in WITH", change.table_name);
            return Err(refused(&what, "only tables of the database can be changed together"));
        };
        if matches!(change.op, WriteOp::Insert(InsertOp::Append)) {
            continue;
        }
        let table = Arc::clone(target.table());
        let name = table.full_name();
        if tables.insert(table.id(), table).is_some() {
            let what = format!("changing rows of {name} by two parts of one statement");
            let instead = "say it in one UPDATE, DELETE or MERGE, or in two statements of a \
                           transaction";
            return Err(refused(&what, instead));
        }
    }
    Ok(tables.into_values().collect())
}

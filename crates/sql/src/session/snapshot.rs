//! Pinning of the tables in a plan to a snapshot, so that a statement reads all of them as of one
//! commit of the catalog.
//!
//! Names are resolved in the statement's snapshot ([`crate::names`]). A prepared statement holds no
//! version of a table, which would be outdated and could not be freed; each run uses its own
//! snapshot.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{LogicalPlan, Statement, TableSource};
use terrace_table::catalog::Snapshot;

use super::target::TargetTable;
use crate::provider::StoredTable;

/// Pins the tables of prepared statements to `snapshot`.
///
/// # Errors
/// If the table of a prepared statement no longer exists, or has other columns.
pub(super) fn pin(plan: LogicalPlan, snapshot: &Snapshot) -> Result<LogicalPlan> {
    replace(plan, &mut |stored| stored.resolved(snapshot))
}

/// Pins all tables to `snapshot`, also those pinned before.
///
/// # Errors
/// If a table no longer exists, or has other columns.
pub(super) fn repin(plan: LogicalPlan, snapshot: &Snapshot) -> Result<LogicalPlan> {
    replace(plan, &mut |stored| stored.as_of(snapshot))
}

/// Removes the versions of tables from the plan of a PREPARE; leaves any other plan unchanged.
pub(super) fn unpin(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(Statement::Prepare(_)) => unpinned(plan),
        plan => Ok(plan),
    }
}

/// Removes the versions of tables from a plan.
pub(super) fn unpinned(plan: LogicalPlan) -> Result<LogicalPlan> {
    replace(plan, &mut |stored| Ok(stored.at(None)))
}

type Replace<'a> = &'a mut dyn FnMut(&StoredTable) -> Result<StoredTable>;

/// Replaces every stored table of a plan.
fn replace(plan: LogicalPlan, replace: Replace<'_>) -> Result<LogicalPlan> {
    let replaced = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::TableScan(mut scan) => {
            let changed = change(&mut scan.source, replace)?;
            Ok(Transformed::new_transformed(LogicalPlan::TableScan(scan), changed))
        }
        LogicalPlan::Dml(mut statement) => {
            let changed = change(&mut statement.target, replace)?;
            Ok(Transformed::new_transformed(LogicalPlan::Dml(statement), changed))
        }
        node => Ok(Transformed::no(node)),
    });
    Ok(replaced?.data)
}

fn change(source: &mut Arc<dyn TableSource>, replace: Replace<'_>) -> Result<bool> {
    let Ok(provider) = source_as_provider(source) else { return Ok(false) };
    if let Some(stored) = provider.downcast_ref::<StoredTable>() {
        *source = provider_as_source(Arc::new(replace(stored)?));
        return Ok(true);
    }
    if let Some(target) = provider.downcast_ref::<TargetTable>() {
        *source = provider_as_source(Arc::new(TargetTable::new(replace(target.stored())?)));
        return Ok(true);
    }
    Ok(false)
}

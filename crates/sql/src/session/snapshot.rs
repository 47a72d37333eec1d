//! The snapshot that a statement reads: each table as of one commit of the catalog.
//!
//! Names are resolved in the statement's snapshot ([`crate::names`]). A prepared statement keeps no
//! version of a table, which would be that of the day it was prepared and would not be freed; it
//! takes the snapshot of its use.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{LogicalPlan, Statement, TableSource};

use crate::catalog::Snapshot;
use crate::provider::StoredTable;
use crate::write::TargetTable;

/// The plan with tables of prepared statements as of `snapshot`.
///
/// # Errors
/// When the table of a prepared statement is no longer there, or has other columns.
pub(super) fn pin(plan: LogicalPlan, snapshot: &Snapshot) -> Result<LogicalPlan> {
    replace(plan, &mut |stored| stored.resolved(snapshot))
}

/// The plan with all tables as of `snapshot`, whatever they were before.
///
/// # Errors
/// When a table is no longer there, or has other columns.
pub(super) fn repin(plan: LogicalPlan, snapshot: &Snapshot) -> Result<LogicalPlan> {
    replace(plan, &mut |stored| stored.as_of(snapshot))
}

/// The plan of a PREPARE without versions of tables; any other as it is.
pub(super) fn unpin(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(Statement::Prepare(_)) => unpinned(plan),
        plan => Ok(plan),
    }
}

/// The plan without versions of tables.
pub(super) fn unpinned(plan: LogicalPlan) -> Result<LogicalPlan> {
    replace(plan, &mut |stored| Ok(stored.at(None)))
}

type Replace<'a> = &'a mut dyn FnMut(&StoredTable) -> Result<StoredTable>;

/// The plan with every stored table in it replaced.
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

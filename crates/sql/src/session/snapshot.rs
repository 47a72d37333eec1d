//! Which version of each table a statement reads: one, wherever the statement names the table.
//!
//! A name is resolved to the version of that moment. A statement that names a table twice, in a
//! view for example, would see two versions if somebody committed in between; and a prepared
//! statement would see the version of the day it was prepared, and keep it from being freed.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{LogicalPlan, Statement, TableSource};

use crate::provider::StoredTable;
use crate::table::TableVersion;

/// The plan with the same version of a table everywhere. Tables of prepared statements are those of
/// now.
///
/// # Errors
/// When the table of a prepared statement is no longer there, or has other columns.
pub(super) fn pin(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut versions: HashMap<u64, Arc<TableVersion>> = HashMap::new();
    replace(plan, &mut |stored| {
        let current = stored.current()?;
        let version = versions.entry(current.table().id()).or_insert_with(|| current.version());
        Ok(current.at(Some(Arc::clone(version))))
    })
}

/// The plan of a PREPARE without versions of tables; any other as it is.
pub(super) fn unpin(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(Statement::Prepare(_)) => {
            replace(plan, &mut |stored| Ok(stored.at(None)))
        }
        plan => Ok(plan),
    }
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
    let Some(stored) = provider.downcast_ref::<StoredTable>() else { return Ok(false) };
    *source = provider_as_source(Arc::new(replace(stored)?));
    Ok(true)
}

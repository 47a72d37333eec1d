//! Permission checks of the tables in a plan.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::dml::{InsertOp, MergeIntoAction, MergeIntoClause};
use datafusion::logical_expr::{DdlStatement, DmlStatement, LogicalPlan, TableSource, WriteOp};
use std::sync::Arc;
use terrace_table::access::{Privilege, Privileges};
use terrace_table::error::SqlError;

use super::rights::Rights;
use crate::file_tables;
use crate::provider::StoredTable;

/// Name of the plan node above a change that returns columns of its rows.
pub(crate) const RETURNING: &str = "Returning";

/// Refuses a plan that reads or changes tables without the privilege, or that reads or writes
/// files, which requires a superuser. Tables below views have already been checked with the rights
/// of the views' owners. UPDATE, DELETE, MERGE, and RETURNING with columns read the rows that they
/// change, so they also require SELECT.
///
/// # Errors
/// [`SqlError::Denied`].
pub(crate) fn check_plan(plan: &LogicalPlan, rights: &Rights<'_>) -> Result<(), SqlError> {
    if rights.limited()?.is_none() {
        return Ok(());
    }
    let check = |node: &LogicalPlan| {
        check_node(node, rights)?;
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_with_subqueries(check)?;
    Ok(())
}

fn check_node(node: &LogicalPlan, rights: &Rights<'_>) -> Result<()> {
    match node {
        LogicalPlan::TableScan(scan) => {
            check_table(&scan.source, [Privilege::Select].into_iter().collect(), rights)
        }
        LogicalPlan::Dml(DmlStatement { target, op, .. }) => {
            check_table(target, privileges_of(op), rights)
        }
        LogicalPlan::Extension(extension) if extension.node.name() == RETURNING => {
            extension.node.inputs().into_iter().try_for_each(|change| match change {
                LogicalPlan::Dml(DmlStatement { target, .. }) => {
                    check_table(target, [Privilege::Select].into_iter().collect(), rights)
                }
                _ => Ok(()),
            })
        }
        LogicalPlan::Copy(copy) => {
            Ok(rights.require_superuser(&format!("writing the file {}", copy.output_url))?)
        }
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) => {
            let what = format!("making a table of the files {}", table.locations.join(", "));
            Ok(rights.require_superuser(&what)?)
        }
        _ => Ok(()),
    }
}

fn privileges_of(op: &WriteOp) -> Privileges {
    use Privilege::{Delete, Insert, Update};
    match op {
        WriteOp::Insert(InsertOp::Append) => [Insert].into_iter().collect(),
        WriteOp::Insert(_) => [Insert, Delete].into_iter().collect(),
        WriteOp::Update => [Update].into_iter().collect(),
        WriteOp::Delete | WriteOp::Truncate => [Delete].into_iter().collect(),
        WriteOp::MergeInto(merge) => {
            let of_clause = |clause: &MergeIntoClause| match &clause.action {
                // DO NOTHING is planned so.
                MergeIntoAction::Update(assignments) if assignments.is_empty() => None,
                MergeIntoAction::Update(_) => Some(Update),
                MergeIntoAction::Delete => Some(Delete),
                MergeIntoAction::Insert { .. } => Some(Insert),
            };
            merge.clauses.iter().filter_map(of_clause).chain([Privilege::Select]).collect()
        }
        _ => Privileges::of_tables(),
    }
}

fn check_table(
    source: &Arc<dyn TableSource>,
    privileges: Privileges,
    rights: &Rights<'_>,
) -> Result<()> {
    let provider = source_as_provider(source)?;
    if let Some(stored) = provider.downcast_ref::<StoredTable>().filter(|it| !it.is_granted()) {
        let table = stored.table();
        for privilege in privileges.iter() {
            rights.require(privilege, table.schema_name(), Some(table.name()))?;
        }
    } else if file_tables::is_of_files(provider.as_ref()) {
        rights.require_superuser("reading files")?;
    }
    Ok(())
}

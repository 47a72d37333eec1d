//! DELETE and UPDATE that DataFusion's planner would carry out wrongly.
//!
//! It hands a table the filters that are left in the optimised plan of such a statement. A
//! condition with a subquery or a second table is not among them, nor is one that the optimiser
//! has proved false, so that more rows than meant would go.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DataFusionResult, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::physical_plan::ExecutionPlan;

use crate::error::SqlError;
use crate::provider::StoredTable;
use crate::write::dml_plan;

/// The physical plan of a DELETE or UPDATE of a stored table whose logical plan was not optimised;
/// none for any other statement.
pub(super) fn plan(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Option<Arc<dyn ExecutionPlan>>, SqlError> {
    let LogicalPlan::Dml(statement) = plan else { return Ok(None) };
    if !matches!(statement.op, WriteOp::Delete | WriteOp::Update) {
        return Ok(None);
    }
    let provider = source_as_provider(&statement.target)?;
    let Some(stored) = provider.downcast_ref::<StoredTable>() else { return Ok(None) };
    Ok(Some(dml_plan(state, stored.table(), statement)?))
}

/// Refuses a DELETE or UPDATE whose rows depend on more than the row itself.
pub(super) fn refuse(plan: &LogicalPlan) -> Result<(), SqlError> {
    let LogicalPlan::Dml(DmlStatement { table_name, op, input, .. }) = plan else { return Ok(()) };
    let (verb, instead) = match op {
        WriteOp::Delete => (
            "DELETE",
            format!(
                "say CREATE OR REPLACE TABLE {table_name} AS SELECT * FROM {table_name} WHERE, \
                 with the condition for the rows to keep"
            ),
        ),
        WriteOp::Update => (
            "UPDATE",
            format!(
                "say CREATE OR REPLACE TABLE {table_name} AS SELECT, with the new values as \
                 expressions"
            ),
        ),
        _ => return Ok(()),
    };
    if concerns_one_table(input, table_name)? {
        return Ok(());
    }
    Err(SqlError::Refused { what: format!("{verb} with a subquery or a second table"), instead })
}

/// Whether a plan reads `table` alone, row by row.
fn concerns_one_table(plan: &LogicalPlan, table: &TableReference) -> DataFusionResult<bool> {
    let mut simple = true;
    plan.apply_with_subqueries(|node| {
        simple &= match node {
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
                true
            }
            LogicalPlan::EmptyRelation(_) => true,
            LogicalPlan::TableScan(scan) => scan.table_name.resolved_eq(table),
            _ => false,
        };
        Ok(if simple { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(simple)
}

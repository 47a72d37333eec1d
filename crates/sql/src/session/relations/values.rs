//! VALUES in FROM, whose rows have types of their own.
//!
//! DataFusion gives every VALUES of an INSERT the columns of its table, also one of a subquery.

use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Query, SetExpr};

/// True if a query is VALUES and nothing else.
pub(super) fn is_plain(query: &Query) -> bool {
    let is_values = matches!(query.body.as_ref(), SetExpr::Values(values)
        if !values.value_keyword && !values.rows.is_empty());
    is_values
        && query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
}

/// Plans such a query.
///
/// # Errors
/// Errors of planning a value, and rows of different lengths.
pub(super) fn plan(query: Query, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let SetExpr::Values(values) = *query.body else { return plan_err!("a query without VALUES") };
    let none = DFSchema::empty();
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in values.rows {
        let row = row.content.into_iter().map(|value| context.sql_to_expr(value, &none));
        rows.push(row.collect::<Result<Vec<_>>>()?);
    }
    LogicalPlanBuilder::values(rows)?.build()
}

//! An analyzer rule that makes the value of a scalar subquery null if it returns no row.
//!
//! `(SELECT 1 FROM t WHERE false)` is null. DataFusion takes the column of the subquery, which is
//! never null, for its value: `... IS NULL` was false, and a projection of the value failed. A
//! value that a join finds, of a correlated subquery, is nullable already.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;

use crate::scalar::Nullable;

/// The analyzer rule. It runs before types are coerced, which derives nullability anew.
#[derive(Debug)]
pub(super) struct MissingRows;

impl AnalyzerRule for MissingRows {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "missing_rows"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| match &expr {
            Expr::ScalarSubquery(subquery) if hides_null(subquery) => {
                Ok(Transformed::yes(Nullable::of(expr)))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        let is_new = expr.transformed;
        Ok(if is_new { expr.update_data(|expr| name.restore(expr)) } else { expr })
    })?;
    match rewritten.transformed {
        true => rewritten.map_data(LogicalPlan::recompute_schema),
        false => Ok(rewritten),
    }
}

/// True if a subquery may return no row, and its column is never null.
fn hides_null(subquery: &Subquery) -> bool {
    let plan = &subquery.subquery;
    subquery.outer_ref_columns.is_empty()
        && plan.schema().fields().first().is_some_and(|field| !field.is_nullable())
        && !is_one_row(plan)
}

/// True if a plan returns a row whatever its input is.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Values(values) => !values.values.is_empty(),
        _ => false,
    }
}

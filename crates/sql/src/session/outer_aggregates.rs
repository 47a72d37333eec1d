//! An analyzer rule that refuses aggregates of an outer query.
//!
//! An aggregate whose arguments and filter name columns of an outer query alone belongs to that
//! query: in `SELECT (SELECT sum(o.x) FROM u) FROM o` the sum is over the rows of `o`, and the
//! query returns one row. DataFusion would compute it over the rows of `u`, once for each row of
//! `o`.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// The analyzer rule. It runs before comparisons with subqueries are expanded, since the expansion
/// adds aggregates over the rows of subqueries.
#[derive(Debug)]
pub(super) struct OuterAggregates;

impl AnalyzerRule for OuterAggregates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            let LogicalPlan::Aggregate(aggregate) = node else {
                return Ok(TreeNodeRecursion::Continue);
            };
            match aggregate.aggr_expr.iter().find(|expr| belongs_to_outer(expr)) {
                Some(expr) => plan_err!(
                    "{expr} names columns of an outer query alone and belongs to that query; \
                     compute it there, in a subquery of FROM"
                ),
                None => Ok(TreeNodeRecursion::Continue),
            }
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "outer_aggregates"
    }
}

/// Returns true if all columns of an expression are of an outer query, and there are some.
fn belongs_to_outer(expr: &Expr) -> bool {
    let (mut outer, mut own) = (false, false);
    // The visit does not fail.
    let _ = expr.apply(|expr| {
        outer |= matches!(expr, Expr::OuterReferenceColumn(..));
        own |= matches!(expr, Expr::Column(_));
        Ok(TreeNodeRecursion::Continue)
    });
    outer && !own
}

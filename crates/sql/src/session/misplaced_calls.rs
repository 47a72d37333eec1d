//! Refusal of aggregate and window functions in clauses that are evaluated for each row, such as
//! WHERE.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, WriteOp};

/// Refuses a plan with an aggregate or window function in such a clause, with PostgreSQL's error
/// text.
///
/// # Errors
/// If there are any.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        check(node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check(node: &LogicalPlan) -> Result<()> {
    match node {
        // Of HAVING and QUALIFY, calls are columns of the plan below.
        LogicalPlan::Filter(filter) => refuse(&filter.predicate, "WHERE"),
        LogicalPlan::Join(join) => {
            let sides = join.on.iter().flat_map(|(left, right)| [left, right]);
            sides.chain(&join.filter).try_for_each(|expr| refuse(expr, "JOIN conditions"))
        }
        LogicalPlan::Values(values) => {
            values.values.iter().flatten().try_for_each(|expr| refuse(expr, "VALUES"))
        }
        LogicalPlan::Limit(limit) => {
            let skip = limit.skip.iter().try_for_each(|expr| refuse(expr, "OFFSET"));
            skip.and_then(|()| limit.fetch.iter().try_for_each(|expr| refuse(expr, "LIMIT")))
        }
        LogicalPlan::Dml(change) if matches!(change.op, WriteOp::Update) => {
            let LogicalPlan::Projection(assigned) = change.input.as_ref() else { return Ok(()) };
            assigned.expr.iter().try_for_each(|expr| refuse(expr, "UPDATE"))
        }
        _ => Ok(()),
    }
}

/// Refuses an expression of a clause that calls an aggregate or window function.
fn refuse(expr: &Expr, clause: &str) -> Result<()> {
    let (mut aggregates, mut windows) = (false, false);
    expr.apply(|expr| {
        aggregates |= matches!(expr, Expr::AggregateFunction(_));
        windows |= matches!(expr, Expr::WindowFunction(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    match (aggregates, windows) {
        (true, _) => plan_err!("aggregate functions are not allowed in {clause}"),
        (_, true) => plan_err!("window functions are not allowed in {clause}"),
        _ => Ok(()),
    }
}

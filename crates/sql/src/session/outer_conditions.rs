//! Conditions of a subquery that depend on the outer row alone.
//!
//! A subquery that is correlated by such conditions only has the same rows for every outer row of
//! which they are true, and none for the others. Moved out of it they leave a subquery that is
//! evaluated once. DataFusion would make them the condition of a join without a key, which compares
//! every outer row with every row of the subquery.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ExprSchema as _, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Subquery};

/// Splits a correlated subquery into the condition on the outer row, whose columns are `outer`, and
/// a plan that is not correlated. Returns `None` if it depends on the outer row in another way.
///
/// # Errors
/// If a plan cannot be rebuilt.
pub(super) fn split(subquery: &Subquery, outer: &DFSchema) -> Result<Option<(Expr, LogicalPlan)>> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(None);
    }
    let mut moved = Vec::new();
    let rest = without(subquery.subquery.as_ref().clone(), outer, &mut moved)?;
    let is_independent = rest.all_out_ref_exprs().is_empty();
    Ok(conjunction(moved).filter(|_| is_independent).map(|condition| (condition, rest)))
}

/// The plan without its conditions on the outer row, which are appended to `moved`.
fn without(plan: LogicalPlan, outer: &DFSchema, moved: &mut Vec<Expr>) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let conditions = split_conjunction_owned(filter.predicate).into_iter();
            let (of_outer, kept): (Vec<_>, Vec<_>) =
                conditions.partition(|condition| is_of_outer_row(condition, outer));
            for condition in of_outer {
                moved.push(as_seen_outside(condition)?);
            }
            let input = without(Arc::unwrap_or_clone(filter.input), outer, moved)?;
            match conjunction(kept) {
                Some(kept) => Ok(LogicalPlan::Filter(Filter::try_new(kept, Arc::new(input))?)),
                None => Ok(input),
            }
        }
        // Without rows below they return none.
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_) => {
            let rest = plan.map_children(|input| {
                let input = without(input, outer, moved)?;
                Ok(Transformed::yes(input))
            })?;
            Ok(rest.data)
        }
        plan => Ok(plan),
    }
}

/// True if a condition is about columns of the outer row and nothing else.
fn is_of_outer_row(condition: &Expr, outer: &DFSchema) -> bool {
    let names_others = condition.exists(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) => outer.field_from_column(column).is_err(),
            Expr::Column(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::ScalarSubquery(_) => true,
            expr => expr.is_volatile_node(),
        })
    });
    condition.contains_outer() && !names_others.unwrap_or(true)
}

/// The condition with the outer row's columns as columns.
fn as_seen_outside(condition: Expr) -> Result<Expr> {
    let seen = condition.transform_up(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(seen.data)
}

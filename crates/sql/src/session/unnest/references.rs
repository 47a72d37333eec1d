//! Subqueries in expressions and plans, and the columns of outer rows that they name.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// The subquery of an expression.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// True if an expression is a correlated subquery, or compares with one.
pub(super) fn is_correlated(expr: &Expr) -> bool {
    subquery_of(expr).is_some_and(|subquery| !subquery.outer_ref_columns.is_empty())
}

/// True if an expression of a node has a correlated subquery.
pub(super) fn has_correlated(node: &LogicalPlan) -> Result<bool> {
    has_expression(node, is_correlated)
}

/// True if a plan has a subquery, in an expression or as a relation of FROM.
pub(super) fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| match node {
        LogicalPlan::Subquery(_) => Ok(true),
        node => has_expression(node, |expr| subquery_of(expr).is_some()),
    })
}

/// True if an expression of a node has a part for which `is_it` holds.
fn has_expression(node: &LogicalPlan, is_it: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(is_it(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The columns of outer rows of schema `outer` that a plan names.
pub(super) fn outer_columns(plan: &LogicalPlan, outer: &DFSchema) -> Vec<Column> {
    let references = plan.all_out_ref_exprs().into_iter();
    let mut columns: Vec<Column> = Vec::new();
    for reference in references {
        if let Expr::OuterReferenceColumn(_, column) = reference
            && outer.has_column(&column)
            && !columns.contains(&column)
        {
            columns.push(column);
        }
    }
    columns
}

//! Ranks and row numbers as BIGINT.
//!
//! DataFusion's `row_number`, `rank`, `dense_rank` and `ntile` are unsigned, a type that PostgreSQL
//! does not have, and whose differences are decimals. A projection above their window casts them.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, cast};

/// Casts the ranks and row numbers of a plan to BIGINT, right after planning.
///
/// # Errors
/// Errors of planning.
pub(in super::super) fn as_bigint(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_ranks(&plan)? {
        return Ok(plan);
    }
    let mut is_changed = false;
    let rewritten = plan.transform_up_with_subqueries(|node| {
        // The windows of one query stand on each other; the projection stands above all of them.
        let node = match node {
            LogicalPlan::Window(_) => Transformed::no(node),
            node => node.map_children(of_window)?,
        };
        is_changed |= node.transformed;
        // Types of columns may have changed below.
        if is_changed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    })?;
    Ok(rewritten.data)
}

fn has_ranks(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found =
            matches!(node, LogicalPlan::Window(window) if window.window_expr.iter().any(is_rank));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Casts the ranks of the windows on top of a plan.
fn of_window(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let (mut below, mut names) = (&plan, Vec::new());
    while let LogicalPlan::Window(window) = below {
        let ranks = window.window_expr.iter().filter(|expr| is_rank(expr));
        names.extend(ranks.map(|expr| expr.schema_name().to_string()));
        below = &window.input;
    }
    if names.is_empty() {
        return Ok(Transformed::no(plan));
    }
    // The column that tells grouping sets apart belongs to the aggregation alone.
    let visible =
        plan.schema().iter().filter(|(_, field)| field.name() != Aggregate::INTERNAL_GROUPING_ID);
    let columns = visible.map(|(qualifier, field)| {
        let column = Expr::from((qualifier, field));
        let is_rank = qualifier.is_none() && names.contains(field.name());
        match is_rank && *field.data_type() == DataType::UInt64 {
            true => cast(column, DataType::Int64).alias(field.name()),
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(Transformed::yes(LogicalPlanBuilder::from(plan).project(columns)?.build()?))
}

fn is_rank(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_rank(&alias.expr),
        Expr::WindowFunction(call) => {
            matches!(call.fun.name(), "row_number" | "rank" | "dense_rank" | "ntile")
        }
        _ => false,
    }
}

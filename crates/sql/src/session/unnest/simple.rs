//! Subqueries that DataFusion turns into joins, with the right answer.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::logical_expr::logical_plan::{Distinct, Limit};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, FetchType, JoinType, LogicalPlan, Operator, Subquery,
};

use super::super::types;
use super::references::{is_correlated, subquery_of};

/// True if an expression is a correlated subquery that DataFusion does not turn into a join of rows
/// of schema `outer`.
pub(super) fn is_general(expr: &Expr, outer: &DFSchema) -> bool {
    is_correlated(expr)
        && match expr {
            Expr::ScalarSubquery(subquery) => {
                !(names_only(subquery, outer) && is_aggregate(&subquery.subquery))
            }
            expr => subquery_of(expr).is_some_and(|subquery| {
                !(names_only(subquery, outer) && is_list(&subquery.subquery))
            }),
        }
}

/// True if an expression has a subquery that [`is_general`].
pub(super) fn contains_general(expr: &Expr, outer: &DFSchema) -> bool {
    // The visit does not fail.
    expr.exists(|expr| Ok(is_general(expr, outer))).unwrap_or(true)
}

/// True if DataFusion makes a join of a LATERAL subquery without losing rows.
pub(super) fn is_simple_lateral(plan: &LogicalPlan, outer: &DFSchema, is_inner: bool) -> bool {
    references_only(&plan.all_out_ref_exprs(), outer)
        && (has_movable_conditions(plan, false) || (is_inner && is_aggregate(plan)))
}

fn names_only(subquery: &Subquery, outer: &DFSchema) -> bool {
    references_only(&subquery.outer_ref_columns, outer)
}

fn references_only(references: &[Expr], outer: &DFSchema) -> bool {
    references
        .iter()
        .all(|it| matches!(it, Expr::OuterReferenceColumn(_, column) if outer.has_column(column)))
}

/// True if a plan is an aggregation without groups whose conditions on outer rows can be moved.
///
/// They cannot be moved above an alias: DataFusion adds their columns below it, but not to its
/// schema.
fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        plan if plan.contains_outer_reference() => false,
        LogicalPlan::Projection(projection) => is_aggregate(&projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.is_empty() && has_movable_conditions(&aggregate.input, true)
        }
        _ => false,
    }
}

/// True if a plan is a list of rows whose conditions on outer rows can be moved.
fn is_list(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => has_movable_conditions(plan, false),
        plan if plan.contains_outer_reference() => false,
        LogicalPlan::Projection(projection) => is_list(&projection.input),
        LogicalPlan::Distinct(Distinct::All(input)) => is_list(input),
        LogicalPlan::Aggregate(aggregate) => {
            let is_set = |key: &Expr| matches!(key, Expr::GroupingSet(_));
            let is_distinct = aggregate.aggr_expr.is_empty();
            !aggregate.group_expr.is_empty()
                && !aggregate.group_expr.iter().any(is_set)
                && has_movable_conditions(&aggregate.input, !is_distinct)
        }
        _ => false,
    }
}

/// True if all conditions of a plan on outer rows can be moved above it, and above an aggregation
/// if `only_keys`.
fn has_movable_conditions(plan: &LogicalPlan, only_keys: bool) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => {
            let parts = split_conjunction(&filter.predicate).into_iter();
            let moved: Vec<_> = parts.filter(|part| part.contains_outer()).collect();
            // DataFusion files the columns of conditions under the plan that is left when they are
            // gone: those of a plan that is left by several conditions are lost.
            let is_shared = !moved.is_empty()
                && matches!(*filter.input, LogicalPlan::Filter(_))
                && !filter.input.all_out_ref_exprs().is_empty();
            !is_shared
                && moved.into_iter().all(|part| is_movable(part, only_keys))
                && has_movable_conditions(&filter.input, only_keys)
        }
        plan if plan.all_out_ref_exprs().is_empty() => true,
        plan if plan.contains_outer_reference() => false,
        LogicalPlan::Projection(projection) => has_movable_conditions(&projection.input, only_keys),
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner => {
                has_movable_conditions(&join.left, only_keys)
                    && has_movable_conditions(&join.right, only_keys)
            }
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
                has_movable_conditions(&join.left, only_keys)
                    && join.right.all_out_ref_exprs().is_empty()
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_movable(condition: &Expr, only_keys: bool) -> bool {
    let has_subquery = condition.exists(|expr| Ok(subquery_of(expr).is_some()));
    let is_column = |expr: &Expr| match expr {
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Column(_)),
        expr => matches!(expr, Expr::Column(_)),
    };
    let is_key = || match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if !has_key(condition) => {
            (is_column(left) && !right.any_column_refs())
                || (is_column(right) && !left.any_column_refs())
        }
        _ => false,
    };
    !has_subquery.unwrap_or(true) && (!only_keys || is_key())
}

/// True if a condition names a value of the outer row that is compared by a key: the keys of both
/// sides take the place of the columns.
fn has_key(condition: &Expr) -> bool {
    let has_key = condition.exists(|expr| match expr {
        Expr::OuterReferenceColumn(field, _) => Ok(types::has_key(field)),
        _ => Ok(false),
    });
    has_key.unwrap_or(true)
}

/// True if a plan returns at most one row for each outer row.
pub(super) fn is_at_most_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_at_most_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_at_most_one_row(&alias.input),
        LogicalPlan::Filter(filter) => is_at_most_one_row(&filter.input),
        LogicalPlan::Sort(sort) => is_at_most_one_row(&sort.input),
        LogicalPlan::Distinct(distinct) => is_at_most_one_row(distinct.input()),
        LogicalPlan::Subquery(subquery) => is_at_most_one_row(&subquery.subquery),
        LogicalPlan::Limit(limit) => fetches_one(limit) || is_at_most_one_row(&limit.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Values(values) => values.values.len() <= 1,
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

fn fetches_one(limit: &Limit) -> bool {
    matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
}

//! LATERAL subqueries of FROM, which are evaluated for the rows of the relations before them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::{OptimizerContext, OptimizerRule as _};

use super::domain::{Domain, stable};
use super::fields::{self, Names, conditions_of, named, same};
use super::positions;
use super::push_down::{Pushed, push_down};
use super::references::{has_correlated, outer_columns};
use super::simple::is_simple_lateral;

/// True if the right side of a join is a LATERAL subquery.
pub(super) fn is_lateral(join: &Join) -> bool {
    subquery_of(&join.right).is_some()
}

fn subquery_of(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some(&subquery.subquery),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some(&subquery.subquery),
            _ => None,
        },
        _ => None,
    }
}

/// Joins the rows on the left with those that the subquery returns for each of them.
pub(super) fn unnest(join: Join, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let outer = outer_columns(&join.right, join.left.schema());
    let is_inner = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left => false,
        _ if outer.is_empty() => true,
        other => {
            return not_impl_err!(
                "a LATERAL subquery on the right of a {other} JOIN that names columns of the left"
            );
        }
    };
    if let Some(plan) = by_datafusion(&join, is_inner)? {
        return Ok(Transformed::yes(plan));
    }
    let schema = Arc::clone(&join.schema);
    let mut conditions = conditions_of(&join);
    let left = stable(Arc::unwrap_or_clone(join.left), &outer)?;
    let domain = Domain::new(&left, outer, names)?;
    let right = without_wrapper(Arc::unwrap_or_clone(join.right))?;
    let fields = Arc::clone(right.schema());
    let Pushed { plan, keys } = push_down(right, &domain, names)?;
    let own: Vec<_> = keys.iter().map(|_| names.next("key")).collect();
    let columns = keys.into_iter().zip(&own).map(|(key, name)| Expr::Column(key).alias(name));
    let right = fields::restore(plan, &fields, columns)?;
    let of_left = domain.outer().iter().cloned().map(Expr::Column);
    conditions.extend(same(of_left, own.iter().map(|name| named(name))));
    let joined = fields::join(left, right, join.join_type, conditions)?;
    // Its condition may have subqueries.
    let joined = match has_correlated(&joined)? {
        true => positions::unnest(joined, names)?.data,
        false => joined,
    };
    fields::restore(joined, &schema, []).map(Transformed::yes)
}

/// The join that DataFusion makes of a subquery whose conditions it can move.
fn by_datafusion(join: &Join, is_inner: bool) -> Result<Option<LogicalPlan>> {
    let outer = join.left.schema();
    let is_simple = subquery_of(&join.right).is_some_and(|subquery| {
        let is_plain = join.filter.is_none() && join.on.is_empty();
        is_simple_lateral(subquery, outer, is_inner && is_plain)
    });
    if !is_simple || join.filter.as_ref().is_some_and(|it| it.contains_outer()) {
        return Ok(None);
    }
    let plan = LogicalPlan::Join(join.clone());
    let rewritten = DecorrelateLateralJoin::new().rewrite(plan, &OptimizerContext::new());
    match rewritten {
        Ok(rewritten) if rewritten.transformed => {
            fields::restore(rewritten.data, &join.schema, []).map(Some)
        }
        // Before types are coerced, DataFusion may fail to evaluate an aggregate of no rows.
        _ => Ok(None),
    }
}

/// The subquery without the node that marks it as LATERAL.
fn without_wrapper(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(subquery) => Ok(Arc::unwrap_or_clone(subquery.subquery)),
        LogicalPlan::SubqueryAlias(_) => {
            Ok(plan.map_children(|input| without_wrapper(input).map(Transformed::yes))?.data)
        }
        plan => Ok(plan),
    }
}

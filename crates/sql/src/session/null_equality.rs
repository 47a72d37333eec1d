//! Optimizer rules that keep DataFusion's reordering of inner joins from losing keys and from
//! mixing null semantics.
//!
//! DataFusion's rule `eliminate_cross_join` flattens nested inner joins into one list of inputs and
//! one list of keys, and builds joins from these.
//!
//! Lost keys: a key of which one side is a constant, or has columns of two inputs, as `a.x + b.y`
//! has, may fit none of the new joins, and is lost. Such constants become conditions here, and
//! joins whose columns are combined in one key stay together. Where many inputs are joined, another
//! rule does its work (`large_joins`).
//!
//! Mixed null semantics: whether nulls are equal is a property of a join, not of a pair of keys.
//! `eliminate_cross_join` gives all joins that it builds the property of the outermost, and moves
//! equalities of WHERE into them; and `extract_equijoin_predicate` adds equalities to the keys of a
//! join by IS NOT DISTINCT FROM. The rules here wrap these two and show them only joins of one kind
//! at a time. A join with equalities of both kinds gets keys of one (`mixed_keys`).

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, NullEquality, Result};
use datafusion::logical_expr::logical_plan::{Join, Projection};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::guards::{has_any, is_join};
use super::{large_joins, mixed_keys};

/// Flattens inner joins, those by IS NOT DISTINCT FROM separately, and keeps joins together whose
/// columns are combined in one key.
#[derive(Debug, Default)]
pub(super) struct CrossJoins(EliminateCrossJoin);

impl OptimizerRule for CrossJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !has_any(&plan, is_join)? {
            return Ok(Transformed::no(plan));
        }
        let apart = plan.transform_up_with_subqueries(|node| {
            set_apart(node).transform_data(|node| Ok(keep_keys(node)))
        })?;
        if large_joins::are_in(&apart.data)? {
            return large_joins::reordered(apart.data).map(Transformed::yes);
        }
        let rewritten = self.0.rewrite(apart.data, config)?;
        Ok(Transformed::new_transformed(rewritten.data, rewritten.transformed || apart.transformed))
    }
}

/// Puts a projection of all columns, which the rule does not look through, between a join by IS NOT
/// DISTINCT FROM and any plan that it must not be mixed with. Later rules remove projections
/// without effect.
fn set_apart(node: LogicalPlan) -> Transformed<LogicalPlan> {
    match node {
        LogicalPlan::Filter(mut filter) if kind(&filter.input) == Some(true) => {
            // The columns are unchanged, so the predicate is still valid.
            filter.input = behind_projection(filter.input);
            Transformed::yes(LogicalPlan::Filter(filter))
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let own = Some(nulls_equal(&join));
            let mixes = |child: &LogicalPlan| kind(child).is_some() && kind(child) != own;
            let (left, right) = (mixes(&join.left), mixes(&join.right));
            let side = |child, mixes| if mixes { behind_projection(child) } else { child };
            let join = Join { left: side(join.left, left), right: side(join.right, right), ..join };
            Transformed::new_transformed(LogicalPlan::Join(join), left || right)
        }
        node => Transformed::no(node),
    }
}

/// Protects the keys of an inner join that could be lost.
fn keep_keys(node: LogicalPlan) -> Transformed<LogicalPlan> {
    match node {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && !join.on.is_empty() => {
            let join = with_conditions(join);
            join.update_data(LogicalPlan::Join)
        }
        node => Transformed::no(node),
    }
}

fn with_conditions(mut join: Join) -> Transformed<Join> {
    let operator = if nulls_equal(&join) { Operator::IsNotDistinctFrom } else { Operator::Eq };
    let is_key = |(left, right): &(Expr, Expr)| left.any_column_refs() && right.any_column_refs();
    let (keys, conditions): (Vec<_>, Vec<_>) = join.on.into_iter().partition(is_key);
    let mut is_new = !conditions.is_empty();
    let conditions = conditions.into_iter().map(|(left, right)| binary_expr(left, operator, right));
    join.filter = conjunction(join.filter.into_iter().chain(conditions));
    let left = stays_together(&join.left, keys.iter().map(|(left, _)| left));
    let right = stays_together(&join.right, keys.iter().map(|(_, right)| right));
    is_new |= left || right;
    join.left = if left { behind_projection(join.left) } else { join.left };
    join.right = if right { behind_projection(join.right) } else { join.right };
    join.on = keys;
    Transformed::new_transformed(join, is_new)
}

/// True if `eliminate_cross_join` could lose one of the keys of a side: a key with columns of
/// several of the inputs into which it flattens that side.
fn stays_together<'a>(side: &LogicalPlan, mut keys: impl Iterator<Item = &'a Expr>) -> bool {
    let inputs = inputs_of(side);
    let is_of_one = |key: &Expr| {
        let columns = key.column_refs();
        let has_all = |schema: &DFSchema| columns.iter().all(|column| schema.has_column(column));
        inputs.iter().any(|input| has_all(input.schema()))
    };
    !keys.all(is_of_one)
}

/// The inputs into which `eliminate_cross_join` flattens a plan: those of its nested inner joins.
fn inputs_of(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let mut inputs = inputs_of(&join.left);
            inputs.extend(inputs_of(&join.right));
            inputs
        }
        plan => vec![plan],
    }
}

fn behind_projection(plan: Arc<LogicalPlan>) -> Arc<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    Arc::new(LogicalPlan::Projection(Projection::new_from_schema(plan, schema)))
}

/// For an inner join: true if it treats nulls as equal.
fn kind(plan: &LogicalPlan) -> Option<bool> {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => Some(nulls_equal(join)),
        _ => None,
    }
}

fn nulls_equal(join: &Join) -> bool {
    !join.on.is_empty() && join.null_equality == NullEquality::NullEqualsNull
}

/// Turns equalities in the conditions of joins into keys, for joins whose keys are by IS NOT
/// DISTINCT FROM without DataFusion's rule.
#[derive(Debug, Default)]
pub(super) struct EquijoinKeys(ExtractEquijoinPredicate);

impl OptimizerRule for EquijoinKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let rewritten = match &plan {
            LogicalPlan::Join(join) if nulls_equal(join) => Transformed::no(plan),
            _ => self.0.rewrite(plan, config)?,
        };
        rewritten.transform_data(|plan| match plan {
            LogicalPlan::Join(join) => Ok(mixed_keys::of(join)?.update_data(LogicalPlan::Join)),
            plan => Ok(Transformed::no(plan)),
        })
    }
}

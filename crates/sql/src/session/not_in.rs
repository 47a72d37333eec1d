//! NOT IN over a correlated subquery, or over one whose rows are compared with a constant.
//!
//! `x NOT IN (subquery)` is true for a row if `x = y` is false, not unknown, for every `y`.
//! DataFusion plans it as a null-aware anti join. Hash joins, DataFusion's and ours, support that
//! if `x = y` is the whole condition and can be the join's key. Otherwise DataFusion refuses the
//! plan or takes unknown for false. This rule turns such joins into plain anti joins on `(x = y) IS
//! NOT FALSE` and the rest of the condition, whose equalities may be keys.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::utils::{
    can_hash, conjunction, find_valid_equijoin_key_pair, split_conjunction_owned,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule after which this one has to run, while the comparison is still the condition's first
/// part.
pub(super) const AFTER: &str = "decorrelate_predicate_subquery";

/// Replaces a null-aware anti join by a plain one with an explicit condition.
#[derive(Debug)]
pub(super) struct NotIn;

impl OptimizerRule for NotIn {
    fn name(&self) -> &str {
        "not_in"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) if join.null_aware && join.filter.is_some() => spelled(join),
            plan => Ok(Transformed::no(plan)),
        }
    }
}

fn spelled(join: Join) -> Result<Transformed<LogicalPlan>> {
    let keys = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let conditions = join.filter.iter().cloned().flat_map(split_conjunction_owned);
    let mut conditions: Vec<Expr> = keys.chain(conditions).collect();
    let is_key = match conditions.as_slice() {
        [only] => is_key(only, join.left.schema(), join.right.schema())?,
        _ => false,
    };
    if is_key || conditions.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let compared = conditions.remove(0);
    conditions.insert(0, Expr::IsNotFalse(Box::new(compared)));
    let filter = conjunction(conditions);
    let join = Join { on: Vec::new(), filter, null_aware: false, ..join };
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// True if a comparison can be the key of a hash join.
fn is_key(expr: &Expr, left: &Arc<DFSchema>, right: &Arc<DFSchema>) -> Result<bool> {
    let Expr::BinaryExpr(BinaryExpr { left: one, op: Operator::Eq, right: other }) = expr else {
        return Ok(false);
    };
    let Some((build, probe)) = find_valid_equijoin_key_pair(one, other, left, right)? else {
        return Ok(false);
    };
    Ok(can_hash(&build.get_type(left)?) && can_hash(&probe.get_type(right)?))
}

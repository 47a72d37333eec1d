//! An optimizer rule that drops repeated keys from the ORDER BY of an aggregate.
//!
//! A repeated key never decides an order. DataFusion drops it from the ordering of `first_value`
//! and similar aggregates, but not from the arrays that it then sorts by that ordering, and panics.
//! Simplification of expressions can make keys equal, so this rule runs after it.

use std::collections::HashSet;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The optimizer rule that drops repeated keys.
#[derive(Debug, Default)]
pub(super) struct OrderKeys;

impl OptimizerRule for OrderKeys {
    fn name(&self) -> &str {
        "order_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| Ok(without_repetitions(expr)))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    }
}

fn without_repetitions(expr: Expr) -> Transformed<Expr> {
    let Expr::AggregateFunction(mut call) = expr else { return Transformed::no(expr) };
    let before = call.params.order_by.len();
    let mut seen = HashSet::new();
    call.params.order_by.retain(|key| seen.insert(bare(&key.expr).clone()));
    let is_changed = call.params.order_by.len() < before;
    let expr = Expr::AggregateFunction(call);
    if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// The expression without its alias.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        expr => expr,
    }
}

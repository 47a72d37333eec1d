//! Optimizer rules of DataFusion that are skipped for plans without the nodes or expressions that
//! they rewrite.
//!
//! Some rules take every node of a plan apart and build it again before they find that there is
//! nothing to do. Visiting the plan by reference first takes a small part of that time.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, ExpressionPlacement, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Returns true for a node that a rule may rewrite.
type Finds = fn(&LogicalPlan) -> Result<bool>;

/// The names of the guarded rules, and the nodes that each may rewrite.
const GUARDS: [(&str, Finds); 3] = [
    ("rewrite_set_comparison", has_set_comparison),
    ("eliminate_join", is_join),
    ("extract_leaf_expressions", has_leaf_expression),
];

/// A rule that runs only if `finds` is true for a node of the plan.
#[derive(Debug)]
struct Guarded {
    rule: Rule,
    finds: Finds,
}

/// Returns `rule` with the guard that [`GUARDS`] has for it, or as it is if there is none.
pub(super) fn guarded(rule: Rule) -> Rule {
    let guard = GUARDS.iter().find(|(name, _)| *name == rule.name());
    match guard {
        // For rules with an order the optimizer visits the nodes itself.
        Some((_, finds)) if rule.apply_order().is_none() => {
            Arc::new(Guarded { rule, finds: *finds })
        }
        _ => rule,
    }
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match has_any(&plan, self.finds)? {
            true => self.rule.rewrite(plan, config),
            false => Ok(Transformed::no(plan)),
        }
    }
}

/// True if a plan or one of its subqueries has a node that satisfies `finds`.
pub(super) fn has_any(plan: &LogicalPlan, finds: Finds) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = finds(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// True for a join.
pub(super) fn is_join(node: &LogicalPlan) -> Result<bool> {
    Ok(matches!(node, LogicalPlan::Join(_)))
}

/// True for a node that the rewrites of calls may change: one with a call of a scalar function, a
/// LIKE, which may be of bytes, or a comparison of nested values.
pub(super) fn has_call(node: &LogicalPlan) -> Result<bool> {
    let is_call = |expr: &Expr| match expr {
        Expr::ScalarFunction(_) | Expr::Like(_) => true,
        Expr::OuterReferenceColumn(field, _) => field.data_type().is_nested(),
        Expr::ScalarSubquery(query) => has_nested(&query.subquery),
        _ => false,
    };
    let is_comparison = |expr: &Expr| matches!(expr, Expr::BinaryExpr(_) | Expr::Between(_));
    let is_of_nested =
        matches!(node, LogicalPlan::TableScan(_)) || node.inputs().into_iter().any(has_nested);
    Ok(has_expression(node, is_call)? || is_of_nested && has_expression(node, is_comparison)?)
}

/// True for a plan with columns of nested types.
fn has_nested(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().any(|field| field.data_type().is_nested())
}

fn has_set_comparison(node: &LogicalPlan) -> Result<bool> {
    has_expression(node, |expr| matches!(expr, Expr::SetComparison(_)))
}

fn has_leaf_expression(node: &LogicalPlan) -> Result<bool> {
    has_expression(node, |expr| {
        matches!(expr, Expr::ScalarFunction(_))
            && expr.placement() == ExpressionPlacement::MoveTowardsLeafNodes
    })
}

/// True if a node has an expression with a part that satisfies `is_it`.
fn has_expression(node: &LogicalPlan, is_it: fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = expr.exists(|part| Ok(is_it(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use datafusion::optimizer::Optimizer;

    use super::*;

    #[test]
    fn guards_are_those_of_rules_that_visit_the_plan_themselves() {
        let rules = Optimizer::new().rules;
        for (name, _) in GUARDS {
            let rule = rules.iter().find(|rule| rule.name() == name).expect(name);
            let guarded = guarded(Arc::clone(rule));
            assert!(format!("{guarded:?}").starts_with("Guarded"), "{name}");
            assert_eq!(guarded.name(), name);
        }
    }
}

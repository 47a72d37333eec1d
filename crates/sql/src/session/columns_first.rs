//! Comparisons of conditions, with the side that has columns on the left.
//!
//! Of two bounds of a column with one value, `x >= 4 AND 4 < x`, DataFusion keeps the one that
//! excludes the value only if its constant is on the right. It moves literals there itself, but not
//! what becomes a literal later: casts, sums and calls of constants. The sides of a comparison with
//! a volatile function are evaluated in the order in which they are written.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// The analyzer rule.
#[derive(Debug)]
pub(super) struct ColumnsFirst;

impl AnalyzerRule for ColumnsFirst {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "columns_first"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
            plan.map_expressions(|expr| expr.transform_up(|expr| Ok(of_part(expr))))
        }
        plan => Ok(Transformed::no(plan)),
    }
}

fn of_part(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if !left.any_column_refs()
                && right.any_column_refs()
                && !left.is_volatile()
                && !right.is_volatile() =>
        {
            match op.swap() {
                Some(op) => Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(right, op, left))),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        expr => Transformed::no(expr),
    }
}

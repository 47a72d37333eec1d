//! Statements whose single row depends only on their text, such as `SELECT 1`.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::physical_plan::collect;

/// The single row of a statement that reads no table.
#[derive(Debug)]
pub(super) struct Constant {
    /// The row.
    pub(super) rows: RecordBatch,
    /// The settings that the row was computed under. A change of a setting replaces the `Arc`, so
    /// the row is stale if the session has another one.
    pub(super) options: Arc<ConfigOptions>,
}

impl Constant {
    /// Computes the row of a plan that reads no table and calls no function. `None` for any other
    /// plan, and for one that fails: its error appears when it runs.
    pub(super) async fn of(plan: &LogicalPlan, state: &SessionState) -> Option<Self> {
        if !is_constant(plan) {
            return None;
        }
        let planned = state.create_physical_plan(plan).await.ok()?;
        let batches = collect(planned, state.task_ctx()).await.ok()?;
        let rows = concat_batches(&batches.first()?.schema(), &batches).ok()?;
        let options = Arc::clone(state.config().options());
        (rows.num_rows() == 1).then_some(Self { rows, options })
    }
}

/// True for a projection of literals and operators, whose row is about as long as its text.
fn is_constant(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = plan else { return false };
    let reads_nothing = match projection.input.as_ref() {
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    };
    reads_nothing && projection.expr.iter().all(is_constant_expr)
}

fn is_constant_expr(expr: &Expr) -> bool {
    let mut is_constant = true;
    let walked = expr.apply(|expr| {
        is_constant &= match expr {
            Expr::BinaryExpr(binary) => is_operator(binary.op),
            Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::Cast(_)
            | Expr::Negative(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_) => true,
            _ => false,
        };
        Ok(if is_constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && is_constant
}

/// Comparisons, arithmetic and logic.
fn is_operator(operator: Operator) -> bool {
    use Operator::{And, Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Or, Plus};
    matches!(
        operator,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | Plus | Minus | Multiply | Divide | Modulo | And | Or
    )
}

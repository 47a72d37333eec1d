//! Comparisons with the elements of a list, `x = ANY(l)` and `x < ALL(l)`, which become calls of
//! functions: DataFusion's plans ignore nulls among the elements.

use std::mem;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};
use terrace_functions::lists::{ALL, ANY};

use super::super::dialect::call;

/// Rewrites a comparison with a list; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    let (name, left, op, right) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (ANY, left, compare_op, right),
        Expr::AllOp { left, compare_op, right } => (ALL, left, compare_op, right),
        _ => return,
    };
    if is_query(right) || !is_comparison(op) {
        return;
    }
    let operator = Expr::Value(Value::SingleQuotedString(op.to_string()).into());
    let take = |operand: &mut Expr| mem::replace(operand, Expr::Value(Value::Null.into()));
    *expr = call(name, [take(right), take(left), operator]);
}

/// True for a subquery, also between further parentheses.
fn is_query(operand: &Expr) -> bool {
    match operand {
        Expr::Subquery(_) => true,
        Expr::Nested(inner) => is_query(inner),
        _ => false,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

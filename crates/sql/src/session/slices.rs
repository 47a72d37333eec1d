//! Slices of lists: `l[2:3]`, `l[2:]`, `l[:3]` and `l[1:5:2]`, which become calls of `array_slice`.

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Subscript, UnaryOperator, Value};

use super::dialect::call;

/// Rewrites the slices of an expression.
pub(super) fn write_out(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let is_slice =
        |access: &AccessExpr| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }));
    if !access_chain.iter().any(is_slice) {
        return;
    }
    let mut value = std::mem::replace(root.as_mut(), number(1));
    let mut others = Vec::new();
    for access in std::mem::take(access_chain) {
        match access {
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
                value = of_others(value, std::mem::take(&mut others));
                // The last element has the number -1.
                let lower = lower_bound.unwrap_or_else(|| number(1));
                let upper = upper_bound.unwrap_or_else(last);
                value = call("array_slice", [value, lower, upper].into_iter().chain(stride));
            }
            other => others.push(other),
        }
    }
    *expr = of_others(value, others);
}

/// Applies the accesses `others` that follow a slice to `value`.
fn of_others(value: Expr, others: Vec<AccessExpr>) -> Expr {
    match others.is_empty() {
        true => value,
        false => Expr::CompoundFieldAccess { root: Box::new(value), access_chain: others },
    }
}

fn number(number: u8) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

fn last() -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(1)) }
}

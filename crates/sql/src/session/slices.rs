//! Slices of lists: `l[2:3]`, `l[2:]`, `l[:3]` and `l[1:5:2]`, which become calls of `array_slice`;
//! and fields of expressions: `l[1].a` and `(x).a`.

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Subscript, UnaryOperator, Value};

use super::column_options::normalized;
use super::dialect::call;

/// Rewrites the slices of an expression, and its fields.
pub(super) fn write_out(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    // The names that follow an identifier may be those of a table and a column.
    let mut may_be_column = matches!(root.as_ref(), Expr::Identifier(_));
    let is_part = |access: &&mut AccessExpr| {
        may_be_column &= matches!(access, AccessExpr::Dot(_));
        may_be_column
    };
    for access in access_chain.iter_mut().skip_while(is_part) {
        // The planner takes the name of a field as a text only.
        if let AccessExpr::Dot(Expr::Identifier(name)) = access {
            let name = Value::SingleQuotedString(normalized(name.clone()));
            *access = AccessExpr::Dot(Expr::Value(name.into()));
        }
    }
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

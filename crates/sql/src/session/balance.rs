//! Balancing of chains of AND, OR and UNION, so that the depth of the plan does not grow with their
//! length.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, SetExpr, SetOperator, SetQuantifier, Value, Values,
};

/// Minimum number of operands of a chain of AND, OR or UNION that is balanced.
const CHAIN_LEN_MIN: usize = 16;

/// Rewrites a left-deep chain of at least [`CHAIN_LEN_MIN`] operands of AND, or of OR, as a tree of
/// minimum depth.
pub(super) fn balance_chain(expr: &mut Expr) {
    let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr else {
        return;
    };
    let op = op.clone();
    let mut len = 1;
    let mut next = &*expr;
    while let Expr::BinaryOp { left, op: inner, .. } = next
        && *inner == op
    {
        len += 1;
        next = left;
    }
    if len < CHAIN_LEN_MIN || is_balanced(expr, &op, len) {
        return;
    }
    let mut operands = Vec::with_capacity(len);
    let mut rest = mem::replace(expr, Expr::Value(Value::Null.into()));
    loop {
        match rest {
            Expr::BinaryOp { left, op: inner, right } if inner == op => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    let join = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    };
    if let Some(balanced) = balanced(operands, &join) {
        *expr = balanced;
    }
}

/// True if a chain whose left spine has `len` operands is already a balanced tree.
fn is_balanced(expr: &Expr, op: &BinaryOperator, len: usize) -> bool {
    let Expr::BinaryOp { right, .. } = expr else { return true };
    let is_chain = matches!(right.as_ref(), Expr::BinaryOp { op: inner, .. } if inner == op);
    is_chain && len < 2 * CHAIN_LEN_MIN
}

/// Builds a tree of minimum depth over the items, in their order.
pub(super) fn balanced<T>(items: Vec<T>, join: &impl Fn(T, T) -> T) -> Option<T> {
    let mut level = items;
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        let mut items = level.into_iter();
        while let Some(left) = items.next() {
            next.push(match items.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        level = next;
    }
    level.pop()
}

/// Rewrites a left-deep chain of at least [`CHAIN_LEN_MIN`] operands of UNION, or of UNION ALL, as
/// a tree of minimum depth.
pub(super) fn balance_unions(body: &mut SetExpr) {
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. } = body else { return };
    let quantifier = *set_quantifier;
    if !matches!(quantifier, SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None) {
        // UNION BY NAME matches columns by name with its left side.
        return;
    }
    let is_union = |body: &SetExpr| {
        matches!(body, SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. }
            if *set_quantifier == quantifier)
    };
    let mut len = 1;
    let mut next = &*body;
    while let SetExpr::SetOperation { left, .. } = next
        && is_union(next)
    {
        len += 1;
        next = left;
    }
    if len < CHAIN_LEN_MIN {
        return;
    }
    let mut operands = Vec::with_capacity(len);
    let mut rest = mem::replace(body, no_rows());
    while is_union(&rest)
        && let SetExpr::SetOperation { left, right, .. } = rest
    {
        operands.push(*right);
        rest = *left;
    }
    operands.push(rest);
    operands.reverse();
    let join = |left, right| SetExpr::SetOperation {
        left: Box::new(left),
        op: SetOperator::Union,
        set_quantifier: quantifier,
        right: Box::new(right),
    };
    if let Some(balanced) = balanced(operands, &join) {
        *body = balanced;
    }
}

/// A placeholder for a body while its operands are moved into a balanced tree.
fn no_rows() -> SetExpr {
    SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: vec![] })
}

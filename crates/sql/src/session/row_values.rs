//! Comparisons of rows, rewritten as comparisons of their columns.
//!
//! ```text
//! (a, b) = (c, d)             a = c AND b = d
//! (a, b) <> (c, d)            a <> c OR b <> d
//! (a, b) < (c, d)             a < c OR (a = c AND b < d)
//! (a, b) IN ((c, d), (e, f))  (a = c AND b = d) OR (a = e AND b = f)
//! (a, b) IS NULL              a IS NULL AND b IS NULL
//! (a, b) IS NOT NULL          a IS NOT NULL AND b IS NOT NULL
//! ```
//!
//! DataFusion compares rows as structs, whose comparisons treat nulls as equal and are never
//! unknown.

use std::mem;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};
use terrace_table::error::SqlError;

use super::balance::balanced;
use super::refusal::refused;

/// Rewrites a comparison of rows; leaves any other expression unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for rows of different lengths.
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    let written = match expr {
        Expr::BinaryOp { left, op, right } => match (left.as_mut(), right.as_mut()) {
            (Expr::Tuple(left), Expr::Tuple(right)) if is_comparison(op) => {
                Some(compared(mem::take(left), op, mem::take(right))?)
            }
            _ => None,
        },
        Expr::InList { expr, list, negated } => match expr.as_mut() {
            Expr::Tuple(row) if list.iter().all(|item| matches!(item, Expr::Tuple(_))) => {
                Some(listed(mem::take(row), mem::take(list), *negated)?)
            }
            _ => None,
        },
        Expr::IsNull(row) => all_of(row, |column| Expr::IsNull(Box::new(column))),
        Expr::IsNotNull(row) => all_of(row, |column| Expr::IsNotNull(Box::new(column))),
        _ => None,
    };
    if let Some(written) = written {
        *expr = nested(written);
    }
    Ok(())
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

pub(super) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Combines the conditions of all columns.
pub(super) fn joined(conditions: Vec<Expr>, op: &BinaryOperator) -> Expr {
    let join = |left, right| nested(binary(left, op.clone(), right));
    balanced(conditions, &join).unwrap_or(Expr::Value(Value::Null.into()))
}

fn all_of(row: &mut Expr, condition: impl Fn(Expr) -> Expr) -> Option<Expr> {
    let Expr::Tuple(columns) = row else { return None };
    let conditions = mem::take(columns).into_iter().map(condition).collect();
    Some(joined(conditions, &BinaryOperator::And))
}

fn compared(left: Vec<Expr>, op: &BinaryOperator, right: Vec<Expr>) -> Result<Expr, SqlError> {
    if left.len() != right.len() {
        return Err(refused(
            &format!("comparing a row of {} with a row of {}", left.len(), right.len()),
            "rows that are compared have as many columns",
        ));
    }
    let pairs = left.into_iter().zip(right);
    let of_columns = |op: &BinaryOperator| {
        let conditions = pairs.clone().map(|(left, right)| binary(left, op.clone(), right));
        conditions.collect()
    };
    Ok(match op {
        BinaryOperator::Eq => joined(of_columns(op), &BinaryOperator::And),
        BinaryOperator::NotEq => joined(of_columns(op), &BinaryOperator::Or),
        _ => ordered(pairs.collect(), op),
    })
}

/// Compares by the first columns that differ; equal rows satisfy only `<=` and `>=`.
fn ordered(mut pairs: Vec<(Expr, Expr)>, op: &BinaryOperator) -> Expr {
    let strict = match op {
        BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::Gt,
        op => op.clone(),
    };
    let Some((left, right)) = pairs.pop() else { return Expr::Value(Value::Null.into()) };
    let last = binary(left, op.clone(), right);
    pairs.into_iter().rev().fold(last, |rest, (left, right)| {
        let equal = binary(left.clone(), BinaryOperator::Eq, right.clone());
        let tied = nested(binary(equal, BinaryOperator::And, nested(rest)));
        binary(binary(left, strict.clone(), right), BinaryOperator::Or, tied)
    })
}

fn listed(row: Vec<Expr>, list: Vec<Expr>, negated: bool) -> Result<Expr, SqlError> {
    let mut equal = Vec::with_capacity(list.len());
    for item in list {
        if let Expr::Tuple(item) = item {
            equal.push(nested(compared(row.clone(), &BinaryOperator::Eq, item)?));
        }
    }
    let listed = joined(equal, &BinaryOperator::Or);
    Ok(match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(listed)) },
        false => listed,
    })
}

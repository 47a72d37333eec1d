//! Membership of rows in subqueries, rewritten with EXISTS.
//!
//! ```text
//! (a, b) IN (S)      EXISTS (a row of S equals it)                as a condition of a WHERE
//! (a, b) NOT IN (S)  NOT EXISTS (a row of S equals it, or may)    as a condition of a WHERE
//! (a, b) IN (S)      CASE WHEN EXISTS (a row of S equals it) THEN true
//!                         WHEN EXISTS (the comparison with a row of S is unknown) THEN null
//!                         ELSE false END                          anywhere else
//! ```
//!
//! DataFusion compares rows as structs, whose comparisons treat nulls as equal and are never
//! unknown.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SetExpr, TableFactor, UnaryOperator, VisitorMut,
};
use terrace_table::error::SqlError;

use super::dialect::parsed_expr;
use super::refusal::refused;
use super::row_values::{binary, joined, nested};
use super::walk::Walk;

/// Rewrites the memberships among the parts of a condition that all have to be true.
///
/// # Errors
/// [`SqlError::Refused`] if the subquery cannot be made a table.
pub(super) fn write_out_condition(condition: &mut Expr) -> Result<(), SqlError> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            write_out_condition(left)?;
            write_out_condition(right)
        }
        Expr::Nested(inner) => write_out_condition(inner),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            if let Expr::InSubquery { expr: row, negated, .. } = expr.as_mut()
                && matches!(row.as_ref(), Expr::Tuple(_))
            {
                *negated = !*negated;
                let membership = expr.as_ref().clone();
                *condition = membership;
                return write_out_condition(condition);
            }
            Ok(())
        }
        condition => {
            if let Some(Membership { row, subquery, negated }) = Membership::take(condition) {
                let equal = equal(&row);
                let found = if negated { Expr::IsNotFalse(Box::new(equal)) } else { equal };
                *condition = exists(subquery, row.len(), found, negated)?;
            }
            Ok(())
        }
    }
}

/// Rewrites a membership outside of a WHERE, where false and null differ; leaves any other
/// expression unchanged.
///
/// # Errors
/// As [`write_out_condition`].
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    let Some(Membership { row, mut subquery, negated }) = Membership::take(expr) else {
        return Ok(());
    };
    // Two copies of the subquery, each with two of one inside of it, would be many.
    let mut inner = Memberships::default();
    let _ = subquery.walk(&mut inner);
    let _ = row.clone().iter_mut().try_for_each(|value| value.walk(&mut inner));
    if inner.found {
        return Err(refused(
            "a row IN a subquery inside of another one",
            "write one of them as EXISTS with a condition for each column",
        ));
    }
    let mut case = parsed_expr("(CASE WHEN true THEN true WHEN true THEN null ELSE false END)")?;
    if let Expr::Nested(inner) = &mut case
        && let Expr::Case { conditions, .. } = inner.as_mut()
        && let [found, unknown] = conditions.as_mut_slice()
    {
        let is_unknown = Expr::IsNull(Box::new(equal(&row)));
        found.condition = exists(subquery.clone(), row.len(), equal(&row), false)?;
        unknown.condition = exists(subquery, row.len(), is_unknown, false)?;
    }
    *expr = match negated {
        true => nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(case) }),
        false => case,
    };
    Ok(())
}

/// Looks for memberships of rows.
#[derive(Default)]
struct Memberships {
    found: bool,
}

impl VisitorMut for Memberships {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { expr, .. } = expr {
            self.found |= matches!(expr.as_ref(), Expr::Tuple(_));
        }
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// `(a, b) [NOT] IN (subquery)`.
struct Membership {
    row: Vec<Expr>,
    subquery: Box<Query>,
    negated: bool,
}

impl Membership {
    /// Takes the parts of an expression, if it is one.
    fn take(expr: &mut Expr) -> Option<Self> {
        let Expr::InSubquery { expr: row, subquery, negated } = expr else { return None };
        let Expr::Tuple(row) = row.as_mut() else { return None };
        Some(Self { row: mem::take(row), subquery: subquery.clone(), negated: *negated })
    }
}

/// The name of the subquery's rows and of its column at a position; no statement has them.
const ROWS: &str = "row of a subquery";

fn column(number: usize) -> String {
    format!("column {number} of a row")
}

/// The condition that a row of the subquery equals `row`.
fn equal(row: &[Expr]) -> Expr {
    let columns = row.iter().enumerate().map(|(number, value)| {
        let names = vec![Ident::with_quote('"', ROWS), Ident::with_quote('"', column(number))];
        binary(Expr::CompoundIdentifier(names), BinaryOperator::Eq, nested(value.clone()))
    });
    nested(joined(columns.collect(), &BinaryOperator::And))
}

/// `EXISTS (SELECT 1 FROM (subquery) rows WHERE condition)`.
fn exists(
    subquery: Box<Query>,
    columns: usize,
    condition: Expr,
    is_negated: bool,
) -> Result<Expr, SqlError> {
    let names: Vec<_> = (0..columns).map(|number| format!("\"{}\"", column(number))).collect();
    let names = names.join(", ");
    let text = format!("EXISTS (SELECT 1 FROM (SELECT 1) AS \"{ROWS}\" ({names}) WHERE true)");
    let mut written = parsed_expr(&text)?;
    if let Expr::Exists { subquery: outer, negated } = &mut written
        && let SetExpr::Select(select) = outer.body.as_mut()
        && let [from] = select.from.as_mut_slice()
        && let TableFactor::Derived { subquery: inner, .. } = &mut from.relation
    {
        *negated = is_negated;
        *inner = subquery;
        select.selection = Some(condition);
        return Ok(written);
    }
    Err(refused("a row IN a subquery", "write it as EXISTS with a condition for each column"))
}

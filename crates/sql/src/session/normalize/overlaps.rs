//! `(a, b) OVERLAPS (c, d)`, and the named arguments of `make_interval`.
//!
//! ```text
//! (a, b) OVERLAPS (c, d)       ->  CASE ... END, with the NULLs of PostgreSQL
//! make_interval(days => 3)     ->  make_interval(0, 0, 0, 3, 0, 0, 0)
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArguments, Value,
};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_expr;
use super::super::refusal::refused;

/// Parameters of `make_interval`, in order.
const PARAMETERS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// Rewrites an OVERLAPS; leaves any other expression unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for operands that are not two pairs.
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } = &*expr else {
        return Ok(());
    };
    let (Expr::Tuple(first), Expr::Tuple(second)) = (left.as_ref(), right.as_ref()) else {
        return Err(refused(&expr.to_string(), "say (start, end) OVERLAPS (start, end)"));
    };
    let ([start, end], [other_start, other_end]) = (first.as_slice(), second.as_slice()) else {
        return Err(refused(&expr.to_string(), "say (start, end) OVERLAPS (start, end)"));
    };
    let (from, to) = period(start, end);
    let (other_from, other_to) = period(other_start, other_end);
    // If the first begins later, it overlaps unless it begins at or after the other's end.
    let later = |from: &str, to: &str, end: &str| {
        format!(
            "CASE WHEN {end} IS NULL THEN NULL WHEN {from} < {end} THEN TRUE \
             WHEN {to} IS NULL THEN NULL ELSE FALSE END"
        )
    };
    *expr = parsed_expr(&format!(
        "(CASE WHEN {from} > {other_from} THEN {} WHEN {from} < {other_from} THEN {} \
         WHEN {from} = {other_from} AND {to} IS NOT NULL AND {other_to} IS NOT NULL THEN TRUE END)",
        later(&from, &to, &other_to),
        later(&other_from, &other_to, &to),
    ))?;
    Ok(())
}

/// The earlier and the later end of a period. An end that is an interval counts from the start; a
/// single end that is known is the earlier one.
fn period(start: &Expr, end: &Expr) -> (String, String) {
    let (start, end) = match is_interval(end) {
        true => (format!("({start})"), format!("(({start}) + ({end}))")),
        false => (format!("({start})"), format!("({end})")),
    };
    let from =
        format!("(CASE WHEN {end} < {start} OR {start} IS NULL THEN {end} ELSE {start} END)");
    let to =
        format!("(CASE WHEN {end} < {start} THEN {start} WHEN {start} IS NOT NULL THEN {end} END)");
    (from, to)
}

fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Nested(inner) => is_interval(inner),
        Expr::Cast { data_type: DataType::Interval { .. }, .. } => true,
        Expr::Function(function) => is_make_interval(function),
        _ => false,
    }
}

fn is_make_interval(function: &Function) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| name.value.eq_ignore_ascii_case("make_interval"))
}

/// Puts named arguments of `make_interval` at their places; leaves any other call unchanged.
pub(super) fn place_arguments(function: &mut Function) {
    if !is_make_interval(function) {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    if list.args.iter().all(|arg| matches!(arg, FunctionArg::Unnamed(_))) {
        return;
    }
    let mut placed: [Option<FunctionArg>; PARAMETERS.len()] = Default::default();
    for (place, arg) in list.args.iter().enumerate() {
        let (place, arg) = match arg {
            FunctionArg::Unnamed(arg) => (Some(place), arg),
            FunctionArg::Named { name, arg, .. } => {
                (PARAMETERS.iter().position(|it| name.value.eq_ignore_ascii_case(it)), arg)
            }
            FunctionArg::ExprNamed { .. } => return,
        };
        // The planner reports a name or number of arguments that is wrong.
        let Some(free) = place.and_then(|place| placed.get_mut(place)) else { return };
        if free.replace(FunctionArg::Unnamed(arg.clone())).is_some() {
            return;
        }
    }
    let zero = || {
        let zero = Value::Number("0".to_owned(), false);
        FunctionArg::Unnamed(Expr::Value(zero.into()).into())
    };
    list.args = placed.into_iter().map(|arg| arg.unwrap_or_else(zero)).collect();
}

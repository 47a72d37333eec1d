//! Comparisons, orders and casts of enums in expressions.
//!
//! A value is stored as its text. Two values are equal if their texts are. Where an expression
//! orders values, they are replaced by the ranks of their labels.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, InList, InSubquery, ScalarFunction, SetComparison, Sort, WindowFunction,
};
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable as _, Operator, TryCast, lit,
};

use super::enum_type::EnumType;
use super::field::list_of;
use super::functions::{cast, cast_list, invalid, label, rank, rank_list, try_cast, try_cast_list};
use super::kinds::{Kind, Scopes, is_null, text_of};
use super::listing;
use crate::session::refusal::refused;

/// Returns the enum of a field; `None` if it has none.
pub(super) type Find<'a> = &'a dyn Fn(&Field) -> Result<Option<Kind>>;

/// True for a node of an expression that [`rewrite`] may change.
pub(super) fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
        Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::ScalarFunction(_) => true,
        _ => false,
    }
}

/// Rewrites one node of an expression, whose operands are rewritten already, so that casts,
/// comparisons and orders of enums have their semantics.
///
/// # Errors
/// For a text that is no label, and for an operation that enums do not have.
pub(super) fn rewrite(expr: Expr, scopes: &Scopes, find: Find<'_>) -> Result<Expr> {
    match expr {
        Expr::Cast(Cast { expr: operand, field }) => match find(&field)? {
            Some(Kind::Value(of)) => converted(*operand, &of, scopes, cast),
            Some(Kind::List(of)) => converted_list(*operand, &of, scopes, cast_list),
            None => Ok(Expr::Cast(Cast { expr: operand, field })),
        },
        Expr::TryCast(TryCast { expr: operand, field }) => match find(&field)? {
            Some(Kind::Value(of)) => converted(*operand, &of, scopes, try_cast),
            Some(Kind::List(of)) => converted_list(*operand, &of, scopes, try_cast_list),
            None => Ok(Expr::TryCast(TryCast { expr: operand, field })),
        },
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) => {
            compared(&mut [left.as_mut(), right.as_mut()], is_order(op), scopes)?;
            Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
            compared(&mut [expr.as_mut(), low.as_mut(), high.as_mut()], true, scopes)?;
            Ok(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let mut operands = vec![expr.as_mut()];
            operands.extend(list.iter_mut());
            compared(&mut operands, false, scopes)?;
            Ok(Expr::InList(InList { expr, list, negated }))
        }
        Expr::InSubquery(membership) => in_subquery(membership, scopes),
        Expr::SetComparison(comparison) => with_set(comparison, scopes),
        Expr::AggregateFunction(call) => aggregated(call, scopes),
        Expr::WindowFunction(call) => windowed(*call, scopes),
        Expr::ScalarFunction(call) => called(call, scopes),
        other => Ok(other),
    }
}

/// Casts an operand, which is a text or null, to an enum.
fn converted(
    operand: Expr,
    of: &Arc<EnumType>,
    scopes: &Scopes,
    cast: fn(&Arc<EnumType>, Expr) -> Expr,
) -> Result<Expr> {
    match scopes.kind(&operand) {
        Some(Kind::Value(same)) if same == *of => return Ok(operand),
        Some(Kind::List(_)) => return Err(incomparable(of, "a list")),
        _ => {}
    }
    let data_type = scopes.rows.last().and_then(|rows| operand.get_type(&*rows.schema).ok());
    match data_type {
        Some(other) if !other.is_string() && !other.is_null() => Err(refused(
            &format!("casting a value of type {other} to the enum {}", of.name),
            "cast a text",
        )
        .into()),
        _ => Ok(cast(of, operand)),
    }
}

/// Casts an operand, which is a list of texts, a text or null, to lists of an enum.
fn converted_list(
    operand: Expr,
    of: &Arc<EnumType>,
    scopes: &Scopes,
    cast: fn(&Arc<EnumType>, Expr) -> Expr,
) -> Result<Expr> {
    match scopes.kind(&operand) {
        Some(Kind::List(same)) if same == *of => Ok(operand),
        Some(Kind::List(other)) => Err(incomparable(of, &format!("the enum {}", other.name))),
        Some(Kind::Value(_)) => Err(incomparable(of, "a value that is no list")),
        None => Ok(cast(of, texts(operand))),
    }
}

/// Casts an operand to a list of texts.
fn texts(operand: Expr) -> Expr {
    Expr::Cast(Cast::new(Box::new(operand), list_of(DataType::Utf8View)))
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, IsDistinctFrom, IsNotDistinctFrom, NotEq};
    is_order(op) || matches!(op, Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Makes operands comparable: literals must be labels, and if `is_order`, ranks replace all.
fn compared(operands: &mut [&mut Expr], is_order: bool, scopes: &Scopes) -> Result<()> {
    let kinds: Vec<_> = operands.iter().map(|operand| scopes.kind(operand)).collect();
    let of = match kinds.iter().flatten().next() {
        None => return Ok(()),
        Some(Kind::Value(of)) => Arc::clone(of),
        Some(Kind::List(of)) => return compared_lists(operands, &kinds, of, is_order),
    };
    for (operand, kind) in operands.iter_mut().zip(&kinds) {
        match kind {
            Some(Kind::Value(same)) if *same == of => {}
            Some(Kind::Value(other)) => {
                return Err(incomparable(&of, &format!("the enum {}", other.name)));
            }
            Some(Kind::List(_)) => return Err(incomparable(&of, "a list")),
            None => {
                let is_parameter = matches!(operand, Expr::Placeholder(_));
                match text_of(operand) {
                    Some(text) if of.rank(text).is_none() => return Err(invalid(&of, text)),
                    None if is_order && !is_parameter && !is_null(operand) => {
                        return Err(incomparable(&of, &format!("{operand}, a text")));
                    }
                    _ => {}
                }
            }
        }
        if is_order {
            **operand = place(&of, std::mem::take(&mut **operand));
        }
    }
    Ok(())
}

/// Makes lists comparable: constants become lists of the enum, and if `is_order`, all are replaced
/// by lists of ranks.
fn compared_lists(
    operands: &mut [&mut Expr],
    kinds: &[Option<Kind>],
    of: &Arc<EnumType>,
    is_order: bool,
) -> Result<()> {
    for (operand, kind) in operands.iter_mut().zip(kinds) {
        match kind {
            Some(Kind::List(same)) if same == of => {}
            Some(Kind::List(other) | Kind::Value(other)) => {
                return Err(incomparable(of, &format!("the enum {}", other.name)));
            }
            None if is_null(operand) => continue,
            None if !operand.any_column_refs() => {
                **operand = cast_list(of, texts(std::mem::take(&mut **operand)));
            }
            None if is_order => return Err(incomparable(of, &format!("{operand}, a list"))),
            None => {}
        }
        if is_order {
            **operand = rank_list(of, std::mem::take(&mut **operand));
        }
    }
    Ok(())
}

/// The rank of a value, or of a text that is a label.
fn place(of: &Arc<EnumType>, value: Expr) -> Expr {
    if let Some(place) = text_of(&value).and_then(|text| of.rank(text)) {
        return lit(place);
    }
    match is_null(&value) {
        true => lit(ScalarValue::Int32(None)),
        false => rank(of, value),
    }
}

fn in_subquery(membership: InSubquery, scopes: &Scopes) -> Result<Expr> {
    let kinds = (scopes.kind(&membership.expr), scopes.of_subquery(&membership.subquery));
    match kinds {
        (Some(Kind::Value(of)), Some(Kind::Value(other))) if of != other => {
            Err(incomparable(&of, &format!("the enum {}", other.name)))
        }
        _ => Ok(Expr::InSubquery(membership)),
    }
}

fn with_set(comparison: SetComparison, scopes: &Scopes) -> Result<Expr> {
    let kinds = [scopes.kind(&comparison.expr), scopes.of_subquery(&comparison.subquery)];
    match kinds.iter().flatten().next() {
        Some(Kind::Value(of)) if is_order(comparison.op) => {
            Err(unordered(of, &format!("{} with ANY or ALL", comparison.op)))
        }
        _ => Ok(Expr::SetComparison(comparison)),
    }
}

/// Replaces sort keys of enums by their ranks. Returns true if it has changed one.
pub(super) fn ordered(keys: &mut [Sort], scopes: &Scopes) -> bool {
    let mut is_changed = false;
    for key in keys {
        let (of, rank): (_, fn(&Arc<EnumType>, Expr) -> Expr) = match scopes.kind(&key.expr) {
            Some(Kind::Value(of)) => (of, rank),
            Some(Kind::List(of)) => (of, rank_list),
            None => continue,
        };
        key.expr = rank(&of, std::mem::take(&mut key.expr));
        is_changed = true;
    }
    is_changed
}

/// Aggregates that are refused for enums: they would order the argument by its text, or compute
/// with it.
const OF_ORDER: [&str; 10] = [
    "median",
    "approx_median",
    "percentile_cont",
    "percentile_disc",
    "quantile",
    "quantile_cont",
    "quantile_disc",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "histogram",
];

/// Aggregates that return the first argument for the least or greatest second one.
const BY_ORDER: [&str; 6] = ["arg_min", "arg_max", "min_by", "max_by", "argmin", "argmax"];

fn aggregated(mut call: AggregateFunction, scopes: &Scopes) -> Result<Expr> {
    ordered(&mut call.params.order_by, scopes);
    let name = call.func.name().to_owned();
    let args = &mut call.params.args;
    if BY_ORDER.contains(&name.as_str())
        && let Some(Kind::Value(of)) = args.get(1).and_then(|key| scopes.kind(key))
        && let Some(key) = args.get_mut(1)
    {
        *key = rank(&of, std::mem::take(key));
    }
    let kind = args.first().and_then(|value| scopes.kind(value));
    match (kind, name.as_str()) {
        (Some(Kind::Value(of)), "min" | "max") => {
            let [value] = args.as_slice() else {
                return Err(unordered(&of, &format!("{name} of several values")));
            };
            let key = rank(&of, value.clone());
            call.func = first_value_udaf();
            call.params.distinct = false;
            call.params.order_by = vec![Sort::new(key, name == "min", false)];
        }
        (Some(Kind::List(of)), "min" | "max") => return Err(unordered(&of, &name)),
        (Some(Kind::Value(of) | Kind::List(of)), name) if OF_ORDER.contains(&name) => {
            return Err(unordered(&of, name));
        }
        _ => {}
    }
    Ok(Expr::AggregateFunction(call))
}

fn windowed(mut call: WindowFunction, scopes: &Scopes) -> Result<Expr> {
    ordered(&mut call.params.order_by, scopes);
    let name = call.fun.name().to_owned();
    let takes_order = ["min", "max"].contains(&name.as_str())
        || OF_ORDER.contains(&name.as_str())
        || BY_ORDER.contains(&name.as_str());
    let kind = call.params.args.iter().find_map(|value| scopes.kind(value));
    if let (true, Some(Kind::Value(of) | Kind::List(of))) = (takes_order, kind) {
        return Err(unordered(&of, &format!("{name} over a window")));
    }
    Ok(Expr::WindowFunction(Box::new(call)))
}

/// Functions that order the elements of a list, which are refused for lists of enums.
const SORTS: [&str; 10] = [
    "array_sort",
    "list_sort",
    "array_reverse_sort",
    "list_reverse_sort",
    "list_grade_up",
    "array_grade_up",
    "array_min",
    "list_min",
    "array_max",
    "list_max",
];

fn called(mut call: ScalarFunction, scopes: &Scopes) -> Result<Expr> {
    if let Some(listed) = listing::rewrite(&call, scopes)? {
        return Ok(listed);
    }
    let name = call.func.name().to_owned();
    if ["greatest", "least"].contains(&name.as_str()) {
        let mut operands: Vec<&mut Expr> = call.args.iter_mut().collect();
        let kinds = operands.iter().filter_map(|operand| scopes.kind(operand)).next();
        compared(&mut operands, true, scopes)?;
        let places = Expr::ScalarFunction(call);
        return Ok(match kinds {
            Some(Kind::Value(of)) => label(&of, places),
            _ => places,
        });
    }
    if name == "nullif" {
        let mut operands: Vec<&mut Expr> = call.args.iter_mut().collect();
        compared(&mut operands, false, scopes)?;
    }
    match call.args.first().and_then(|list| scopes.kind(list)) {
        Some(Kind::List(of)) if SORTS.contains(&name.as_str()) => Err(unordered(&of, &name)),
        _ => Ok(Expr::ScalarFunction(call)),
    }
}

fn incomparable(of: &EnumType, other: &str) -> DataFusionError {
    let what = format!("comparing the enum {} with {other}", of.name);
    refused(&what, &format!("cast the other value to {}", of.name)).into()
}

fn unordered(of: &EnumType, what: &str) -> DataFusionError {
    let what = format!("{what} of values of the enum {}", of.name);
    refused(&what, "say ORDER BY, min, max or a comparison of two values").into()
}

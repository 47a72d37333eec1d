//! Casts to column types, and comparisons of their values.
//!
//! A cast to UUID, JSON, VARCHAR(n) or CHAR(n) checks its text. A text that is compared with a UUID
//! is one, `'A0EE...' = id`, and a literal that is compared with CHAR(n) has no trailing blanks.
//! Intervals are compared by PostgreSQL's durations, of which a month has 30 days and a day 24
//! hours; Arrow compares their months first.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::{Alias, InList};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable as _, Operator, TryCast,
};
use terrace_functions::columns::{
    TextType, Usage, as_type, interval_key, interval_of_text, is_checked, readable_text,
    try_interval_of_text,
};

use super::kinds::{is_interval, type_of};
use super::ordering::{of_aggregate, of_window};

/// Gives an expression over rows of `schema` the semantics of the types of its columns. Must be
/// applied before types are coerced, while all casts are those that were written.
///
/// # Errors
/// If the expression does not fit the schema.
pub(in super::super) fn rewrite(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    if !concerns(&expr, schema)? {
        return Ok(Transformed::no(expr));
    }
    expr.transform_up(|mut expr| {
        let is_changed = match &mut expr {
            Expr::Cast(Cast { expr: operand, field }) => {
                let cast = cast_of(operand, field, Usage::Cast, schema);
                return Ok(cast.map_or_else(|| Transformed::no(expr), Transformed::yes));
            }
            Expr::TryCast(TryCast { expr: operand, field }) => {
                let cast = cast_of(operand, field, Usage::TryCast, schema);
                return Ok(cast.map_or_else(|| Transformed::no(expr), Transformed::yes));
            }
            Expr::AggregateFunction(call) => of_aggregate(call, schema),
            Expr::WindowFunction(call) => of_window(call, schema),
            Expr::ScalarFunction(call) if call.name() == "get_field" => {
                to_key_type(&mut call.args, schema)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                unify(vec![(left, schema), (right, schema)])
            }
            Expr::Between(Between { expr, low, high, .. }) => {
                unify(vec![(expr, schema), (low, schema), (high, schema)])
            }
            Expr::InList(InList { expr, list, .. }) => {
                let list = list.iter_mut().map(|member| (member, schema));
                unify(std::iter::once((expr.as_mut(), schema)).chain(list).collect())
            }
            Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => {
                let whens = when_then_expr.iter_mut().map(|(when, _)| (when.as_mut(), schema));
                unify(std::iter::once((expr.as_mut(), schema)).chain(whens).collect())
            }
            _ => false,
        };
        Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
    })
}

/// True if an expression may have a value whose semantics differ, judged by its leaves.
fn concerns(expr: &Expr, schema: &dyn ExprSchema) -> Result<bool> {
    let is_of = |field: &Field| TextType::of(field).is_some() || is_interval(field.data_type());
    expr.exists(|part| {
        Ok(match part {
            Expr::Column(column) => schema.field_from_column(column).is_ok_and(|it| is_of(it)),
            Expr::OuterReferenceColumn(field, _) => is_of(field),
            Expr::Literal(value, _) => is_interval(&value.data_type()),
            Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
                field.data_type().is_string() || is_checked(field) || is_of(field)
            }
            Expr::ScalarFunction(_) | Expr::ScalarSubquery(_) => true,
            _ => false,
        })
    })
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Gives the literal key of `m['k']` the type of the map's keys, which it is compared with; true if
/// it had another.
fn to_key_type(args: &mut [Expr], schema: &dyn ExprSchema) -> bool {
    let [map, Expr::Literal(key, _), ..] = args else { return false };
    let Some(DataType::Map(entries, _)) = type_of(map, schema) else { return false };
    let DataType::Struct(fields) = entries.data_type() else { return false };
    let Some(of) = fields.first().map(|field| field.data_type()) else { return false };
    match key.cast_to(of) {
        Ok(cast) if cast.data_type() != key.data_type() => {
            *key = cast;
            true
        }
        _ => false,
    }
}

/// A cast with the semantics of its types; `None` if it has them.
fn cast_of(
    operand: &mut Expr,
    field: &Field,
    usage: Usage,
    schema: &dyn ExprSchema,
) -> Option<Expr> {
    if is_checked(field) {
        return Some(as_type(std::mem::take(operand), field, usage));
    }
    if is_interval(field.data_type()) {
        type_of(operand, schema).filter(DataType::is_string)?;
        let operand = std::mem::take(operand);
        let interval = match usage {
            Usage::TryCast => try_interval_of_text(operand),
            _ => interval_of_text(operand),
        };
        return Some(Expr::Cast(Cast::new(Box::new(interval), field.data_type().clone())));
    }
    if !field.data_type().is_string() {
        return None;
    }
    let text = match type_of(operand, schema)? {
        DataType::Interval(_) | DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            readable_text(std::mem::take(operand))
        }
        _ => return None,
    };
    Some(Expr::Cast(Cast::new(Box::new(text), field.data_type().clone())))
}

/// A member of a group of values that are compared, and the schema of its columns.
pub(super) type Member<'a> = (&'a mut Expr, &'a dyn ExprSchema);

/// Makes the members of a group comparable; true if one has changed.
pub(super) fn unify(mut group: Vec<Member<'_>>) -> bool {
    let marks = group.iter().map(|(expr, schema)| mark_of(expr, *schema));
    let marks: Vec<Option<TextType>> = marks.collect();
    if let Some(of) = marks.iter().flatten().find(|of| of.has_forms()) {
        let others = group.iter_mut().zip(&marks).filter(|(_, mark)| *mark != &Some(*of));
        return others.fold(false, |is_changed, ((expr, schema), _)| {
            as_text_value(expr, *of, *schema) || is_changed
        });
    }
    let types = group.iter().map(|(expr, schema)| type_of(expr, *schema));
    let types: Vec<Option<DataType>> = types.collect();
    let fits = |of: &Option<DataType>| {
        of.as_ref().is_some_and(|of| {
            is_interval(of)
                || matches!(of, DataType::Duration(_) | DataType::Null)
                || of.is_string()
        })
    };
    if !types.iter().flatten().any(is_interval) || !types.iter().all(fits) {
        return false;
    }
    for ((expr, _), of) in group.iter_mut().zip(&types) {
        if *of != Some(DataType::Null) {
            **expr = interval_key(std::mem::take(*expr));
        }
    }
    true
}

/// Makes an operand beside values of a text type one of these; true if it has changed. Of JSONB and
/// CHAR(n) only literals are: PostgreSQL compares other texts with their texts.
fn as_text_value(expr: &mut Expr, of: TextType, schema: &dyn ExprSchema) -> bool {
    let is_text = type_of(expr, schema).is_some_and(|of| of.is_string());
    let is_operand = is_text && (of == TextType::Uuid || matches!(expr, Expr::Literal(..)));
    if is_operand {
        *expr = as_type(std::mem::take(expr), &of.field(""), Usage::Comparison);
    }
    is_operand
}

/// The text type of an expression.
pub(super) fn mark_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<TextType> {
    match expr {
        Expr::Column(column) => TextType::of(schema.field_from_column(column).ok()?),
        Expr::OuterReferenceColumn(field, _) => TextType::of(field),
        Expr::Alias(Alias { expr, .. }) => mark_of(expr, schema),
        Expr::ScalarFunction(_) => TextType::of(&expr.to_field(schema).ok()?.1),
        Expr::ScalarSubquery(query) => TextType::of(query.subquery.schema().fields().first()?),
        _ => None,
    }
}

//! Casts to column types, and comparisons of their values.
//!
//! A cast to UUID, JSON, VARCHAR(n) or CHAR(n) checks its text. A text that is compared with a UUID
//! is one, `'A0EE...' = id`, and a literal that is compared with CHAR(n) has no trailing blanks.
//! Intervals are compared by PostgreSQL's durations, of which a month has 30 days and a day 24
//! hours; Arrow compares their months first. Values of JSONB are compared by PostgreSQL's order, in
//! which `1` and `1.0` are equal.

use std::sync::Arc;

use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType, Field, TimeUnit,
};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{ExprSchema, Result, plan_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Case, Cast, Expr, Operator, TryCast};
use terrace_functions::columns::{
    TextType, Usage, as_type, interval_extreme, interval_key, interval_of_text, is_checked,
    readable_text, try_interval_of_text,
};
use terrace_functions::{date_of, lists};

use super::choices::{choices, is_untyped, of_choice};
use super::kinds::{is_interval, mark_of, type_of};
use super::nested::{of_argument, of_items};
use super::ordering::{of_aggregate, of_window, to_key};

/// Gives an expression over rows of `schema` the semantics of the types of its columns. Must be
/// applied before types are coerced, while all casts are those that were written.
///
/// # Errors
/// If the expression does not fit the schema.
pub(in super::super) fn rewrite(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    if !concerns(&expr, schema)? {
        return Ok(Transformed::no(expr));
    }
    expr.transform_up(|expr| {
        let expr = of_part(expr, schema)?.transform_data(|expr| of_lists(expr, schema))?;
        let expr = expr.transform_data(|expr| of_choice(expr, schema))?;
        expr.transform_data(|expr| Ok(of_moments(expr, schema)))
    })
}

/// Rewrites one node of an expression, whose children have been rewritten.
fn of_part(mut expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    if let Expr::Cast(Cast { expr: operand, field })
    | Expr::TryCast(TryCast { expr: operand, field }) = &mut expr
    {
        as_seconds(operand, field.data_type(), schema);
    }
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
        Expr::ScalarFunction(call) if call.name() == "make_array" => of_items(call, schema)?,
        Expr::ScalarFunction(call) if matches!(call.name(), "concat" | "concat_ws") => {
            interval_texts(call.args.iter_mut(), schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            interval_texts([&mut **left, &mut **right], schema)
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "typeof" | "pg_typeof") => {
            of_argument(call, schema)
        }
        Expr::ScalarFunction(call) if matches!(call.name(), lists::ANY | lists::ALL) => {
            to_values(&mut call.args, schema)?
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "greatest" | "least") => {
            let Some(extreme) = extreme_of(call, schema) else {
                return Ok(Transformed::no(expr));
            };
            expr = extreme;
            true
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            unify(vec![(left, schema), (right, schema)])
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            let is_changed = to_dates(expr, [&mut **low, &mut **high], schema);
            unify(vec![(expr, schema), (low, schema), (high, schema)]) || is_changed
        }
        Expr::InList(InList { expr, list, .. }) => {
            let is_changed = to_dates(expr, list.iter_mut(), schema);
            let list = list.iter_mut().map(|member| (member, schema));
            unify(std::iter::once((expr.as_mut(), schema)).chain(list).collect()) || is_changed
        }
        Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => {
            let whens = when_then_expr.iter_mut().map(|(when, _)| (when.as_mut(), schema));
            unify(std::iter::once((expr.as_mut(), schema)).chain(whens).collect())
        }
        _ => false,
    };
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Makes a BIGINT of a statement that is cast to a timestamp one of seconds since 1970, as
/// DataFusion does for timestamps in nanoseconds. Casts of calls are those of this project.
fn as_seconds(operand: &mut Expr, to: &DataType, schema: &dyn ExprSchema) {
    if let DataType::Timestamp(TimeUnit::Microsecond, zone) = to
        && type_of(operand, schema) == Some(DataType::Int64)
        && is_written(operand)
    {
        let seconds = DataType::Timestamp(TimeUnit::Second, zone.clone());
        *operand = Expr::Cast(Cast::new(Box::new(std::mem::take(operand)), seconds));
    }
}

/// True for a column or a constant, and casts of those.
fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => is_written(expr),
        _ => false,
    }
}

/// Casts the literals in CASE, `coalesce` and similar expressions whose other values are lists to
/// lists: `coalesce(l, '{}')`.
///
/// # Errors
/// If one of the values is a text that is not a literal.
fn of_lists(mut expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    let is_coalesce = matches!(&expr, Expr::ScalarFunction(call) if call.name() == "coalesce");
    let choices = choices(&mut expr);
    if !is_coalesce && !choices.iter().any(|choice| is_untyped(choice)) {
        return Ok(Transformed::no(expr));
    }
    let types = choices.iter().map(|choice| type_of(choice, schema));
    let types: Vec<Option<DataType>> = types.collect();
    let list = types.iter().flatten().find(|of| is_list(of));
    let texts = types.iter().map(|of| of.as_ref().is_some_and(DataType::is_string));
    let texts: Vec<bool> = texts.collect();
    let Some(list) = list.filter(|_| texts.contains(&true)) else {
        return Ok(Transformed::no(expr));
    };
    let field = Field::new("", list.clone(), true);
    for (choice, _) in choices.into_iter().zip(texts).filter(|(_, is_text)| *is_text) {
        if !is_untyped(choice) {
            return plan_err!("a list and the text {choice} have no common type");
        }
        if let Some(list) = cast_of(choice, &field, Usage::Cast, schema) {
            *choice = list;
        }
    }
    Ok(Transformed::yes(expr))
}

/// True if an expression may have a value whose semantics differ, judged by its leaves.
fn concerns(expr: &Expr, schema: &dyn ExprSchema) -> Result<bool> {
    let is_of = |field: &Field| {
        let of = field.data_type();
        TextType::of(field).is_some() || is_interval(of) || is_moment(of) || is_list(of)
    };
    expr.exists(|part| {
        Ok(match part {
            Expr::Column(column) => schema.field_from_column(column).is_ok_and(|it| is_of(it)),
            Expr::OuterReferenceColumn(field, _) => is_of(field),
            Expr::Literal(value, _) => {
                let of = value.data_type();
                is_interval(&of) || is_moment(&of)
            }
            Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
                let of = field.data_type();
                of.is_string() || is_checked(field) || is_of(field) || is_list(of)
            }
            Expr::ScalarFunction(_) | Expr::ScalarSubquery(_) | Expr::WindowFunction(_) => true,
            _ => false,
        })
    })
}

/// True for a timestamp that reaches beyond those in nanoseconds.
pub(super) fn is_moment(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(unit, _) if *unit != TimeUnit::Nanosecond)
}

pub(super) fn is_date(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Date64)
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_))
}

/// The number of dimensions of a type of lists.
fn dimensions(of: &DataType) -> usize {
    match of {
        DataType::List(item) => 1 + dimensions(item.data_type()),
        _ => 0,
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Gives a list the type of the value that is compared with its elements, if it is a literal,
/// `'{a,b}'`, or has texts that are compared with UUIDs or CHAR(n); true if it has changed.
fn to_values(args: &mut [Expr], schema: &dyn ExprSchema) -> Result<bool> {
    let [list, value, ..] = args else { return Ok(false) };
    let is_literal = of_literal(list, value, schema)?;
    let of = mark_of(value, schema).filter(|of| matches!(of, TextType::Uuid | TextType::Char(_)));
    let is_of_texts = match type_of(list, schema) {
        Some(DataType::List(item)) => item.data_type().is_string(),
        _ => false,
    };
    let Some(of) = of.filter(|_| is_of_texts) else { return Ok(is_literal) };
    let field = Field::new_list("", of.field("item"), true);
    *list = as_type(std::mem::take(list), &field, Usage::Comparison);
    Ok(true)
}

/// Casts a literal, `'{a,b}'`, to a list over the type of `value`; false if `list` is no literal.
fn of_literal(list: &mut Expr, value: &Expr, schema: &dyn ExprSchema) -> Result<bool> {
    let Expr::Literal(text, _) = &*list else { return Ok(false) };
    let Some(Some(text)) = text.try_as_str() else { return Ok(false) };
    let items = Expr::Literal(lists::text_array(text)?, None);
    *list = match type_of(value, schema) {
        Some(of) if !of.is_string() && !of.is_null() => {
            // A number keeps its digits: the type of the value may have fewer.
            let of = if of.is_decimal() { decimal_of(text, of) } else { of };
            Expr::Cast(Cast::new(Box::new(items), DataType::new_list(of, true)))
        }
        _ => items,
    };
    Ok(true)
}

/// A type for all decimals of a literal, `'{1.5,2.25}'`, that has the scale of `of` or more.
fn decimal_of(text: &str, of: DataType) -> DataType {
    let scale = |item: &str| {
        let digits = item.split_once('.').map_or("", |(_, digits)| digits);
        digits.bytes().take_while(u8::is_ascii_digit).count()
    };
    let longest = text.split(',').map(scale).max().and_then(|scale| i8::try_from(scale).ok());
    match of {
        DataType::Decimal128(_, scale) => {
            let scale = longest.map_or(scale, |longest| longest.max(scale));
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale.min(DECIMAL128_MAX_SCALE))
        }
        other => other,
    }
}

/// The greatest or least of intervals, among which may be literals; `None` for other values.
fn extreme_of(call: &ScalarFunction, schema: &dyn ExprSchema) -> Option<Expr> {
    let types = call.args.iter().map(|arg| type_of(arg, schema));
    let types: Vec<DataType> = types.collect::<Option<_>>()?;
    let fits = |of: &DataType| is_interval(of) || of.is_string() || of.is_null();
    if !types.iter().any(is_interval) || !types.iter().all(fits) {
        return None;
    }
    let intervals = call.args.iter().zip(&types).map(|(arg, of)| match of.is_string() {
        true => interval_of_text(arg.clone()),
        false => arg.clone(),
    });
    Some(interval_extreme(intervals.collect(), call.name() == "greatest"))
}

/// Casts the sums of dates and whole days that are compared with a date to dates; true if there are
/// any.
fn to_dates<'a>(
    compared: &Expr,
    others: impl IntoIterator<Item = &'a mut Expr>,
    schema: &dyn ExprSchema,
) -> bool {
    if type_of(compared, schema) != Some(DataType::Date32) {
        return false;
    }
    let mut is_changed = false;
    for other in others {
        if let Some(date) = date_of(other, schema) {
            *other = date;
            is_changed = true;
        }
    }
    is_changed
}

/// Casts the intervals among values that are concatenated to texts; true if there are any.
fn interval_texts<'a>(
    values: impl IntoIterator<Item = &'a mut Expr>,
    schema: &dyn ExprSchema,
) -> bool {
    let mut is_changed = false;
    for value in values {
        if type_of(value, schema).is_some_and(|of| is_interval(&of)) {
            *value = readable_text(std::mem::take(value));
            is_changed = true;
        }
    }
    is_changed
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
    let is_array =
        is_list(field.data_type()) && type_of(operand, schema).is_some_and(|of| of.is_string());
    if is_array {
        let (text, depth) = (std::mem::take(operand), dimensions(field.data_type()));
        *operand = match usage {
            Usage::TryCast => lists::try_text_arrays(text, depth),
            _ => lists::text_arrays(text, depth),
        };
    }
    if is_checked(field) {
        return Some(as_type(std::mem::take(operand), field, usage));
    }
    if is_array {
        let (items, field) = (Box::new(std::mem::take(operand)), Arc::new(field.clone()));
        return Some(match usage {
            Usage::TryCast => Expr::TryCast(TryCast { expr: items, field }),
            _ => Expr::Cast(Cast { expr: items, field }),
        });
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
        let is_changed = others.fold(false, |is_changed, ((expr, schema), _)| {
            as_text_value(expr, *of, *schema) || is_changed
        });
        return *of == TextType::Jsonb && to_keys(group) || is_changed;
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
        return to_moments(&mut group, &types);
    }
    for ((expr, _), of) in group.iter_mut().zip(&types) {
        if *of != Some(DataType::Null) {
            **expr = interval_key(std::mem::take(*expr));
        }
    }
    true
}

/// Gives the literals and dates among the values of which an expression returns one the type of its
/// timestamps: `coalesce(t, '9999-12-31')`.
fn of_moments(mut expr: Expr, schema: &dyn ExprSchema) -> Transformed<Expr> {
    let mut group: Vec<Member<'_>> =
        choices(&mut expr).into_iter().map(|choice| (choice, schema)).collect();
    let types: Vec<_> = group.iter().map(|(choice, schema)| type_of(choice, *schema)).collect();
    let fits = |((choice, _), of): (&Member<'_>, &Option<DataType>)| {
        let is_moment = |of: &DataType| is_moment(of) || of.is_null() || is_date(of);
        is_untyped(choice) || of.as_ref().is_some_and(is_moment)
    };
    let is_changed = group.iter().zip(&types).all(fits) && to_moments(&mut group, &types);
    drop(group);
    if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// Casts the texts and dates of a group with timestamps to timestamps in microseconds; true if it
/// has changed. DataFusion takes nanoseconds, which reach from the year 1677 to 2262 only.
fn to_moments(group: &mut [Member<'_>], types: &[Option<DataType>]) -> bool {
    let Some(moment) = moment_of(types) else { return false };
    let mut is_changed = false;
    for ((expr, _), of) in group.iter_mut().zip(types) {
        let is_other = |of: &DataType| of.is_string() || is_date(of);
        if of.as_ref().is_some_and(is_other) {
            **expr = Expr::Cast(Cast::new(Box::new(std::mem::take(*expr)), moment.clone()));
            is_changed = true;
        }
    }
    is_changed
}

/// Returns the type of the timestamps in microseconds among `types`, if there are some. Beside an
/// instant, a timestamp without a time zone is one in that of the session.
pub(super) fn moment_of(types: &[Option<DataType>]) -> Option<DataType> {
    let zones = types.iter().flatten().filter_map(|of| match of {
        DataType::Timestamp(_, zone) if is_moment(of) => Some(zone.clone()),
        _ => None,
    });
    let zone = zones.reduce(|zone, other| zone.or(other))?;
    Some(DataType::Timestamp(TimeUnit::Microsecond, zone))
}

/// Replaces the members of a group by their keys if all are values of JSONB; true if it has.
fn to_keys(mut group: Vec<Member<'_>>) -> bool {
    let is_jsonb = |(expr, schema): &Member<'_>| {
        mark_of(expr, *schema) == Some(TextType::Jsonb)
            || type_of(expr, *schema).is_some_and(|of| of.is_null())
    };
    let are_jsonb = group.iter().all(is_jsonb);
    if are_jsonb {
        for (expr, schema) in &mut group {
            to_key(expr, *schema);
        }
    }
    are_jsonb
}

/// Casts an operand that is compared with values of the text type `of` to this type; true if it has
/// changed. For JSONB and CHAR(n) it casts only literals: PostgreSQL compares other texts as texts.
fn as_text_value(expr: &mut Expr, of: TextType, schema: &dyn ExprSchema) -> bool {
    let is_text = type_of(expr, schema).is_some_and(|of| of.is_string());
    let is_operand = is_text && (of == TextType::Uuid || matches!(expr, Expr::Literal(..)));
    if is_operand {
        *expr = as_type(std::mem::take(expr), &of.field(""), Usage::Comparison);
    }
    is_operand
}

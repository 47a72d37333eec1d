//! Operators of intervals and dates, as in PostgreSQL: `interval * 1.5`, `2 * interval`,
//! `interval / 2`, `date + interval`, which is a timestamp, and `timestamp - timestamp`, which is
//! an interval of days and a time of day.
//!
//! A date plus a constant interval of whole days stays a date where it is compared with a date, so
//! that scans compare their columns without a cast.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::{
    DFSchema, DataFusionError, ExprSchema, Result, ScalarValue, exec_datafusion_err, exec_err,
    internal_err,
};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable as _, Operator, ScalarUDF, binary_expr, cast,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::arithmetic::{after, before};
use super::elapsed::days_and_time;
use crate::adapter::function;
use crate::scalar::{Call, Definition, Double, Interval, Kind, Overload};

const MONTH_DAYS: f64 = 30.0;
const DAY_SECONDS: f64 = 86_400.0;
const MICROS: f64 = 1e6;
/// Microseconds that are nanoseconds of 64 bits.
const MICROS_MAX: f64 = 9.2e15;

/// The type of a date and a part of a day: with microseconds it has all dates.
const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

const OPERANDS: &[Kind] = &[Kind::Interval, Kind::Double];

const MOVED: &[Kind] = &[Kind::Instant, Kind::Interval];

const FUNCTIONS: &[Definition] = &[
    Definition::new("instant_after", &[Overload::new(MOVED, Kind::Instant, after)]).of_session(),
    Definition::new("instant_before", &[Overload::new(MOVED, Kind::Instant, before)]).of_session(),
    Definition::new("interval_times", &[Overload::new(OPERANDS, Kind::Interval, times)]),
    Definition::new("interval_parts", &[Overload::new(OPERANDS, Kind::Interval, parts)]),
    Definition::new(
        "interval_of_duration",
        &[Overload::new(&[Kind::Any], Kind::Interval, days_and_time)],
    ),
];

static CALLED: LazyLock<Vec<Arc<ScalarUDF>>> =
    LazyLock::new(|| FUNCTIONS.iter().map(function).collect());

/// Expression planner of the operators of intervals and dates.
#[derive(Debug)]
pub struct IntervalOperators;

impl ExprPlanner for IntervalOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let planned = match op {
            BinaryOperator::Multiply | BinaryOperator::Divide => {
                scaled(&op, &left, &right, schema)?
            }
            BinaryOperator::Plus | BinaryOperator::Minus => match sum(&op, &left, &right, schema) {
                None if op == BinaryOperator::Minus => difference(&left, &right, schema)?,
                planned => planned,
            },
            BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq => {
                let is_date = |expr: &Expr| kind(expr, schema).is_some_and(|of| is_date(&of));
                let (one, other) = (date_of(&left, schema), date_of(&right, schema));
                let (left, right) = match (one, other) {
                    (Some(one), None) if is_date(&right) => (one, right.clone()),
                    (None, Some(other)) if is_date(&left) => (left.clone(), other),
                    _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
                };
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
            }
            _ => None,
        };
        Ok(match planned {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }
}

/// The type of an operand that may be a date or an interval; `None` if it is of another type. The
/// operands of a long chain of operators are not typed again at each of them.
fn kind(expr: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    if let Expr::BinaryExpr(BinaryExpr { right, .. }) = expr
        && !right.get_type(schema).is_ok_and(|of| of.is_temporal())
    {
        return None;
    }
    expr.get_type(schema).ok().filter(DataType::is_temporal)
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

fn is_date(of: &DataType) -> bool {
    *of == DataType::Date32
}

/// The product or quotient of an interval and a number.
fn scaled(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> Result<Option<Expr>> {
    let is_interval = |expr: &Expr| kind(expr, schema).is_some_and(|of| is_interval(&of));
    let is_number =
        |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_numeric() || of.is_null());
    let (name, interval, number) = match op {
        BinaryOperator::Divide => ("interval_parts", left, right),
        _ if is_interval(right) => ("interval_times", right, left),
        _ => ("interval_times", left, right),
    };
    if !is_interval(interval) || !is_number(number) {
        return Ok(None);
    }
    let number = match number {
        // The type of a parameter is that of its cast.
        Expr::Placeholder(_) => cast(number.clone(), DataType::Float64),
        number => number.clone(),
    };
    called(name, vec![interval.clone(), number]).map(Some)
}

/// A call of a function of this module.
fn called(name: &str, arguments: Vec<Expr>) -> Result<Expr> {
    match CALLED.iter().find(|function| function.name() == name) {
        Some(function) => Ok(function.call(arguments)),
        None => internal_err!("the function {name} is missing"),
    }
}

/// Returns the sum of an instant in microseconds and an interval, or their difference, whose months
/// and days are those of the session's time zone.
///
/// # Errors
/// None; the function is one of this module.
pub fn moved_instant(instant: Expr, interval: Expr, is_difference: bool) -> Result<Expr> {
    let name = if is_difference { "instant_before" } else { "instant_after" };
    called(name, vec![instant, interval])
}

/// The sum or difference of a date and an interval, as a timestamp.
fn sum(op: &BinaryOperator, left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> Option<Expr> {
    let right_type = kind(right, schema)?;
    let left_type = kind(left, schema)?;
    let moment = |date: &Expr| cast(date.clone(), MOMENT);
    let operator = if *op == BinaryOperator::Plus { Operator::Plus } else { Operator::Minus };
    if is_date(&left_type) && matches!(right_type, DataType::Interval(_)) {
        return Some(binary_expr(moment(left), operator, right.clone()));
    }
    let is_swapped = matches!(left_type, DataType::Interval(_)) && is_date(&right_type);
    (is_swapped && operator == Operator::Plus)
        .then(|| binary_expr(left.clone(), operator, moment(right)))
}

/// The interval between two timestamps, or a timestamp and a date. Arrow's has no days, so that
/// `extract(hour FROM a - b)` would be all hours.
fn difference(left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> Result<Option<Expr>> {
    let is_moment = |of: &DataType| matches!(of, DataType::Timestamp(..)) || is_date(of);
    let types = (kind(left, schema), kind(right, schema));
    let (Some(left_type), Some(right_type)) = types else { return Ok(None) };
    if !is_moment(&left_type) || !is_moment(&right_type) {
        return Ok(None);
    }
    // A local time beside an instant is one of the session's time zone.
    let has_zone = |of: &DataType| matches!(of, DataType::Timestamp(_, Some(_)));
    let (left, right) = match (has_zone(&left_type), has_zone(&right_type)) {
        (true, false) => (left.clone(), cast(right.clone(), left_type)),
        (false, true) => (cast(left.clone(), right_type), right.clone()),
        _ => (left.clone(), right.clone()),
    };
    let elapsed = binary_expr(left, Operator::Minus, right);
    match elapsed.get_type(schema) {
        Ok(DataType::Duration(_)) => called("interval_of_duration", vec![elapsed]).map(Some),
        _ => Ok(None),
    }
}

/// Returns the sum of a date and a constant interval of whole days as a date, for the timestamp
/// that [`IntervalOperators`] plans; `None` for other expressions.
#[must_use]
pub fn date_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) =
        expr
    else {
        return None;
    };
    let date = |expr: &Expr| match expr {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == MOMENT => {
            kind(expr, schema).filter(is_date).map(|_| expr.as_ref().clone())
        }
        _ => None,
    };
    match (date(left), date(right)) {
        (Some(date), None) if is_of_days(right) => Some(binary_expr(date, *op, *right.clone())),
        (None, Some(date)) if is_of_days(left) => Some(binary_expr(*left.clone(), *op, date)),
        _ => None,
    }
}

/// True for a constant interval of whole days.
fn is_of_days(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => {
            interval.nanoseconds == 0
        }
        Expr::Literal(ScalarValue::IntervalYearMonth(Some(_)), _) => true,
        _ => false,
    }
}

fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("interval out of range")
}

fn times(call: &Call) -> Result<ArrayRef> {
    call.map2::<Interval, Double, Interval>(|interval, factor| {
        resized(interval, |part| part * factor).map(Some).ok_or_else(out_of_range)
    })
}

fn parts(call: &Call) -> Result<ArrayRef> {
    call.map2::<Interval, Double, Interval>(|interval, divisor| match divisor {
        0.0 => exec_err!("division by zero"),
        _ => quotient(interval, divisor).map(Some).ok_or_else(out_of_range),
    })
}

/// An interval divided by a number that is not zero; `None` if it is out of range.
pub(crate) fn quotient(
    interval: IntervalMonthDayNano,
    divisor: f64,
) -> Option<IntervalMonthDayNano> {
    resized(interval, |part| part / divisor)
}

/// An interval whose parts are changed; the fraction of a month becomes days, of which it has 30,
/// and that of a day becomes seconds.
fn resized(
    interval: IntervalMonthDayNano,
    change: impl Fn(f64) -> f64,
) -> Option<IntervalMonthDayNano> {
    let (months, days) = (change(interval.months.into()), change(interval.days.into()));
    let more_days = to_micros((months - months.trunc()) * MONTH_DAYS);
    let fraction = days - days.trunc() + more_days - more_days.trunc();
    let seconds = to_micros(fraction * DAY_SECONDS);
    let last_days = (seconds / DAY_SECONDS).trunc();
    let seconds = seconds - last_days * DAY_SECONDS;
    let days = days.trunc() + last_days + more_days.trunc();
    #[expect(clippy::cast_precision_loss, reason = "PostgreSQL computes in double precision")]
    let micros = change(interval.nanoseconds as f64 / 1e3) + seconds * MICROS;
    let nanos = whole(micros.round_ties_even(), MICROS_MAX)?.checked_mul(1_000)?;
    let (months, days) = (small(months.trunc())?, small(days)?);
    Some(IntervalMonthDayNano::new(months, days, nanos))
}

/// Rounds a number to six digits behind the point.
fn to_micros(number: f64) -> f64 {
    (number * MICROS).round_ties_even() / MICROS
}

fn small(number: f64) -> Option<i32> {
    i32::try_from(whole(number, MICROS_MAX)?).ok()
}

/// A number without a fraction as an integer; `None` beyond `limit`, and for NaN.
fn whole(number: f64, limit: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked; NaN is not below the limit")]
    (number.abs() <= limit).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(months: i32, days: i32, nanos: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(months, days, nanos)
    }

    /// The results of PostgreSQL 15.
    #[test]
    fn fractions_of_months_and_days_become_smaller_units() {
        const HOUR: i64 = 3_600_000_000_000;
        let times = |interval, factor: f64| resized(interval, |part| part * factor);
        let parts = |interval, divisor: f64| resized(interval, |part| part / divisor);
        assert_eq!(times(of(1, 0, 0), 1.5), Some(of(1, 15, 0)));
        assert_eq!(times(of(0, 1, 0), 1.5), Some(of(0, 1, 12 * HOUR)));
        assert_eq!(times(of(1, 2, HOUR), 2.0), Some(of(2, 4, 2 * HOUR)));
        assert_eq!(times(of(1, 2, HOUR), -1.0), Some(of(-1, -2, -HOUR)));
        assert_eq!(parts(of(1, 0, 0), 2.0), Some(of(0, 15, 0)));
        assert_eq!(parts(of(0, 0, HOUR), 3.0), Some(of(0, 0, HOUR / 3)));
        assert_eq!(times(of(i32::MAX, 0, 0), 2.0), None);
        assert_eq!(times(of(0, 0, i64::MAX), 2.0), None);
        assert_eq!(times(of(1, 0, 0), f64::NAN), None);
    }
}

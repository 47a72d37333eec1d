//! The session's time zone in casts and functions of timestamps with a time zone.
//!
//! Such a timestamp is an instant, whose type names a time zone: UTC in tables, or the session's.
//! PostgreSQL always takes the local time of an instant in the session's time zone, so arguments of
//! casts and functions that depend on local time are first cast to that zone.

use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, Operator, TryCast, lit};
use terrace_functions::moved_instant;

use crate::scalar::TimeZoneConversion;

/// The functions of timestamps whose results depend on local time.
const LOCAL: &str = "age century date_diff date_part date_sub date_trunc datediff datesub day \
                     dayname dayofmonth dayofweek dayofyear decade era extract format hour isodow \
                     isoyear julian last_day millennium minute month monthname printf quarter \
                     strftime time_bucket timezone_hour timezone_minute to_char week weekday \
                     weekofyear year yearweek";

/// The time zone of a session.
pub(in super::super) fn of(options: &ConfigOptions) -> &str {
    options.execution.time_zone.as_deref().unwrap_or("UTC")
}

/// True for a function whose result depends on the local time of its arguments.
pub(super) fn is_local(name: &str) -> bool {
    LOCAL.split_whitespace().any(|local| local == name)
}

/// A cast of `expr`, of the type `of`, to the session's time zone `zone`; `None` if its type has
/// this zone already, or is not TIMESTAMP WITH TIME ZONE.
pub(in super::super) fn in_zone(expr: &Expr, of: &DataType, zone: &str) -> Option<Expr> {
    match of {
        DataType::Timestamp(unit, Some(own)) if own.as_ref() != zone => {
            Some(to_instants(expr.clone(), *unit, zone, false))
        }
        _ => None,
    }
}

/// The new operand of a cast from or to TIMESTAMP WITH TIME ZONE, with which Arrow's cast uses the
/// session's time zone `zone`; `None` if no change is needed.
pub(super) fn operand(
    operand: &Expr,
    from: &DataType,
    to: &DataType,
    zone: &str,
    is_lenient: bool,
) -> Option<Expr> {
    match (from, to) {
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) => (!is_utc(zone))
            .then(|| TimeZoneConversion::call(lit(zone), microseconds(operand, from))),
        (
            DataType::Timestamp(_, Some(_)),
            DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_),
        ) => in_zone(operand, from, zone),
        // Arrow refuses local times that a clock change skips or repeats.
        (
            DataType::Timestamp(_, None) | DataType::Date32,
            DataType::Timestamp(TimeUnit::Microsecond, Some(own)),
        ) if own.as_ref() != zone && !is_lenient => {
            let local_time = DataType::Timestamp(TimeUnit::Microsecond, None);
            let local_time = match *from == local_time {
                true => operand.clone(),
                false => Expr::Cast(Cast::new(Box::new(operand.clone()), local_time)),
            };
            Some(TimeZoneConversion::call(lit(zone), local_time))
        }
        (
            DataType::Timestamp(_, None)
            | DataType::Date32
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View,
            DataType::Timestamp(unit, Some(own)),
        ) if own.as_ref() != zone => Some(to_instants(operand.clone(), *unit, zone, is_lenient)),
        (DataType::List(items), DataType::List(instants)) => {
            match (items.data_type(), instants.data_type()) {
                (
                    DataType::Timestamp(_, None) | DataType::Date32,
                    DataType::Timestamp(unit, Some(own)),
                ) if own.as_ref() != zone => {
                    let here = DataType::Timestamp(*unit, Some(zone.into()));
                    Some(cast(operand.clone(), DataType::new_list(here, true), is_lenient))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The sum or difference of an instant and an interval with months or days, which are those of the
/// session's time zone `zone`; `None` for other operands, and where Arrow's result is the same.
///
/// # Errors
/// As [`moved_instant`].
pub(super) fn moved(
    (left, left_type): (&Expr, &DataType),
    op: Operator,
    (right, right_type): (&Expr, &DataType),
    zone: &str,
) -> Result<Option<Expr>> {
    use DataType::{Interval, Timestamp};
    let (instant, of, interval, by) = match (left_type, op, right_type) {
        (Timestamp(..), Operator::Plus | Operator::Minus, Interval(_)) => {
            (left, left_type, right, right_type)
        }
        (Interval(_), Operator::Plus, Timestamp(..)) => (right, right_type, left, left_type),
        _ => return Ok(None),
    };
    // Arrow keeps the nanoseconds of files.
    let Timestamp(unit, Some(own)) = of else { return Ok(None) };
    if *unit == TimeUnit::Nanosecond || (is_utc(zone) && is_utc(own)) || is_time(interval) {
        return Ok(None);
    }
    let to = Interval(IntervalUnit::MonthDayNano);
    let interval = match *by == to {
        true => interval.clone(),
        false => Expr::Cast(Cast::new(Box::new(interval.clone()), to)),
    };
    let sum = moved_instant(microseconds(instant, of), interval, op == Operator::Minus)?;
    let is_same = *unit == TimeUnit::Microsecond && own.as_ref() == "UTC";
    Ok(Some(if is_same { sum } else { Expr::Cast(Cast::new(Box::new(sum), of.clone())) }))
}

fn is_utc(zone: &str) -> bool {
    ["UTC", "+00:00"].contains(&zone)
}

/// True for a constant interval without months and days.
fn is_time(interval: &Expr) -> bool {
    matches!(interval, Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _)
        if interval.months == 0 && interval.days == 0)
}

/// Casts instants to microseconds, the unit that the conversion to local time takes.
fn microseconds(operand: &Expr, from: &DataType) -> Expr {
    match from {
        DataType::Timestamp(unit, own) if *unit != TimeUnit::Microsecond => {
            let to = DataType::Timestamp(TimeUnit::Microsecond, own.clone());
            Expr::Cast(Cast::new(Box::new(operand.clone()), to))
        }
        _ => operand.clone(),
    }
}

/// A cast to TIMESTAMP WITH TIME ZONE of a unit and a zone; a `TRY_CAST` if `is_lenient`.
fn to_instants(operand: Expr, unit: TimeUnit, zone: &str, is_lenient: bool) -> Expr {
    cast(operand, DataType::Timestamp(unit, Some(zone.into())), is_lenient)
}

/// A cast; a `TRY_CAST` if `is_lenient`.
pub(super) fn cast(operand: Expr, to: DataType, is_lenient: bool) -> Expr {
    let operand = Box::new(operand);
    match is_lenient {
        true => Expr::TryCast(TryCast::new(operand, to)),
        false => Expr::Cast(Cast::new(operand, to)),
    }
}

//! Current times: `now` and its kin, the start of the statement, and `clock_timestamp`.

use chrono::{DateTime, NaiveTime, Utc};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, lit};

use super::moment::{DAY, local, micros};
use crate::scalar::{Call, Definition, Kind, Overload, Returns, Timestamp};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("clock_timestamp", &[Overload::new(&[], Kind::Instant, clock)]).volatile(),
    Definition::new("now", &[Overload::new(&[], Kind::Instant, unplanned)])
        .alias(&["transaction_timestamp", "statement_timestamp", "get_current_timestamp"])
        .stable(begun_instant),
    Definition::new(
        "current_timestamp",
        &[Overload::new(&[Kind::Integer], Kind::Instant, unplanned).optional(1)],
    )
    .stable(begun_instant),
    Definition::new(
        "localtimestamp",
        &[Overload::new(&[Kind::Integer], Kind::Timestamp, unplanned).optional(1)],
    )
    .alias(&["current_localtimestamp"])
    .stable(begun_local),
    Definition::new(
        "localtime",
        &[Overload::returning(&[Kind::Integer], Returns::By(time), unplanned).optional(1)],
    )
    .alias(&["current_time"])
    .stable(begun_time),
];

/// Digits of the fraction of a second.
const DIGITS_MAX: i64 = 6;

fn clock(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Timestamp>(|_| Ok(Some(Utc::now().timestamp_micros())))
}

/// Implementation of calls that the planner replaces, since only it knows the statement's start:
/// returns an internal error.
pub(super) fn unplanned(call: &Call) -> Result<ArrayRef> {
    internal_err!("the planner evaluates {}", call.name())
}

/// The type of columns of times.
fn time(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Time64(TimeUnit::Microsecond))
}

fn begun_instant(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    begun(args, info, |micros| {
        Ok(ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into())))
    })
}

fn begun_local(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    begun(args, info, |instant| {
        let local = local_micros(instant, info.config_options())?;
        Ok(ScalarValue::TimestampMicrosecond(Some(local), None))
    })
}

fn begun_time(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    begun(args, info, |instant| {
        let local = local_micros(instant, info.config_options())?;
        Ok(ScalarValue::Time64Microsecond(Some(local.rem_euclid(DAY))))
    })
}

/// Replaces a call by a value of the time at which its statement has begun, in microseconds since
/// 1970, rounded to the digits that its argument names.
fn begun(
    args: Vec<Expr>,
    info: &SimplifyContext,
    value: impl FnOnce(i64) -> Result<ScalarValue>,
) -> Result<ExprSimplifyResult> {
    let Some(begun) = info.query_execution_start_time() else {
        return Ok(ExprSimplifyResult::Original(args));
    };
    let micros = begun.timestamp_micros();
    let micros = match args.first() {
        None => micros,
        Some(Expr::Literal(ScalarValue::Int64(Some(digits @ 0..)), _)) => {
            let digits = (*digits).min(DIGITS_MAX);
            let unit = (digits..DIGITS_MAX).fold(1, |unit, _| unit * 10);
            (micros + unit / 2).div_euclid(unit) * unit
        }
        Some(other) => {
            return plan_err!("a precision of {other} is not possible; say a number from 0 to 6");
        }
    };
    Ok(ExprSimplifyResult::Simplified(lit(value(micros)?)))
}

/// The local time of an instant in the session's time zone, both in microseconds since 1970.
fn local_micros(instant: i64, options: &ConfigOptions) -> Result<i64> {
    let instant = local(instant)?.and_utc();
    Ok(micros(instant.with_timezone(&session_zone(options)?).naive_local()))
}

/// Midnight of the day of an instant in the session's time zone, as a local timestamp.
pub(super) fn midnight(instant: DateTime<Utc>, options: &ConfigOptions) -> Result<Expr> {
    let day = instant.with_timezone(&session_zone(options)?).date_naive();
    let midnight = micros(day.and_time(NaiveTime::MIN));
    Ok(lit(ScalarValue::TimestampMicrosecond(Some(midnight), None)))
}

/// Returns the time zone of the session.
///
/// # Errors
/// If there is no such zone.
pub fn session_zone(options: &ConfigOptions) -> Result<Tz> {
    Ok(options.execution.time_zone.as_deref().unwrap_or("UTC").parse()?)
}

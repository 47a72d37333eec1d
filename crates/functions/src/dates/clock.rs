//! The time of the statement and the time of the clock.

use chrono::{DateTime, NaiveTime, Utc};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::timezone::Tz;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, lit};

use super::moment::micros;
use crate::scalar::{Call, Definition, Kind, Overload, Timestamp};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("clock_timestamp", &[Overload::new(&[], Kind::Instant, clock)]).volatile(),
    Definition::new("transaction_timestamp", &[Overload::new(&[], Kind::Instant, unplanned)])
        .alias(&["statement_timestamp", "get_current_timestamp"])
        .stable(begun_instant),
    Definition::new("localtimestamp", &[Overload::new(&[], Kind::Timestamp, unplanned)])
        .alias(&["current_localtimestamp"])
        .stable(begun_local),
];

fn clock(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Timestamp>(|_| Ok(Some(Utc::now().timestamp_micros())))
}

/// The planner knows the time of the statement; until it replaces the call, it has no value.
pub(super) fn unplanned(call: &Call) -> Result<ArrayRef> {
    internal_err!("the planner evaluates {}", call.name())
}

fn begun_instant(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    Ok(match info.query_execution_start_time() {
        Some(begun) => {
            let micros = Some(begun.timestamp_micros());
            let zone = Some("UTC".into());
            ExprSimplifyResult::Simplified(lit(ScalarValue::TimestampMicrosecond(micros, zone)))
        }
        None => ExprSimplifyResult::Original(args),
    })
}

fn begun_local(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    let Some(begun) = info.query_execution_start_time() else {
        return Ok(ExprSimplifyResult::Original(args));
    };
    let local = begun.with_timezone(&zone(info.config_options())?).naive_local();
    let local = ScalarValue::TimestampMicrosecond(Some(micros(local)), None);
    Ok(ExprSimplifyResult::Simplified(lit(local)))
}

/// Midnight of the day of an instant in the session's time zone, as a local timestamp.
pub(super) fn midnight(instant: DateTime<Utc>, options: &ConfigOptions) -> Result<Expr> {
    let day = instant.with_timezone(&zone(options)?).date_naive();
    let midnight = micros(day.and_time(NaiveTime::MIN));
    Ok(lit(ScalarValue::TimestampMicrosecond(Some(midnight), None)))
}

fn zone(options: &ConfigOptions) -> Result<Tz> {
    Ok(options.execution.time_zone.as_deref().unwrap_or("UTC").parse()?)
}

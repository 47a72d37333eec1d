//! Seconds and their parts since 1970, and timestamps of them, as in DuckDB. Those of a timestamp
//! with time zone are of the instant, whatever the time zone of the session.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::moment::{DAY, SECOND, local};
use crate::scalar::{Call, Definition, Double, Int, Interval, Kind, Overload, Time, Timestamp};

/// The days of a month and the hours of a year of 365.25 days, for intervals.
const MONTH_DAYS: i64 = 30;
const YEAR_HOURS: i64 = 8_766;

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "epoch",
        &[
            Overload::new(&[Kind::Timestamp], Kind::Double, seconds),
            Overload::new(&[Kind::Instant], Kind::Double, seconds),
            Overload::new(&[Kind::Interval], Kind::Double, interval_seconds),
            Overload::new(&[Kind::Time], Kind::Double, time_seconds),
        ],
    ),
    Definition::new(
        "epoch_ms",
        &[
            Overload::new(&[Kind::Timestamp], Kind::Integer, units),
            Overload::new(&[Kind::Instant], Kind::Integer, units),
            Overload::new(&[Kind::Integer], Kind::Timestamp, of_units),
            Overload::new(&[Kind::Interval], Kind::Integer, interval_units),
            Overload::new(&[Kind::Time], Kind::Integer, time_units),
        ],
    ),
    Definition::new("epoch_us", UNITS),
    Definition::new("epoch_ns", UNITS),
    Definition::new(
        "make_timestamp_ms",
        &[Overload::new(&[Kind::Integer], Kind::Timestamp, of_units)],
    ),
];

const UNITS: &[Overload] = &[
    Overload::new(&[Kind::Timestamp], Kind::Integer, units),
    Overload::new(&[Kind::Instant], Kind::Integer, units),
    Overload::new(&[Kind::Interval], Kind::Integer, interval_units),
    Overload::new(&[Kind::Time], Kind::Integer, time_units),
];

fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("a time since 1970 is out of range")
}

/// Microseconds as seconds; their number has less than 53 bits for all but far dates.
fn as_seconds(micros: i64) -> f64 {
    micros as f64 / SECOND as f64
}

fn seconds(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Double>(|micros| Ok(Some(as_seconds(micros))))
}

fn time_seconds(call: &Call) -> Result<ArrayRef> {
    call.map1::<Time, Double>(|nanos| Ok(Some(as_seconds(nanos / 1_000))))
}

/// A year of an interval has 365.25 days, as in PostgreSQL; a month 30.
fn interval_seconds(call: &Call) -> Result<ArrayRef> {
    call.map1::<Interval, Double>(|interval| {
        let months = i64::from(interval.months);
        let hours = months / 12 * YEAR_HOURS + months % 12 * MONTH_DAYS * 24;
        let days = i64::from(interval.days) * 86_400;
        let whole = (hours * 3_600 + days) as f64;
        Ok(Some(whole + as_seconds(interval.nanoseconds / 1_000)))
    })
}

fn units(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Int>(|micros| in_units(call.name(), micros).map(Some))
}

/// The units of a time of day. Milliseconds of a time are whole, as in DuckDB.
fn time_units(call: &Call) -> Result<ArrayRef> {
    let whole = if call.name() == "epoch_ms" { 1_000 } else { 1 };
    call.map1::<Time, Int>(|nanos| {
        let micros = nanos / 1_000;
        in_units(call.name(), micros - micros % whole).map(Some)
    })
}

fn interval_units(call: &Call) -> Result<ArrayRef> {
    call.map1::<Interval, Int>(|interval| {
        in_units(call.name(), interval_micros(interval).ok_or_else(out_of_range)?).map(Some)
    })
}

/// The microseconds of an interval whose months have 30 days.
fn interval_micros(interval: IntervalMonthDayNano) -> Option<i64> {
    let days = i64::from(interval.months) * MONTH_DAYS + i64::from(interval.days);
    days.checked_mul(DAY)?.checked_add(interval.nanoseconds / 1_000)
}

/// Microseconds in the unit of a function's name; milliseconds are rounded.
fn in_units(name: &str, micros: i64) -> Result<i64> {
    match name {
        "epoch_ms" => Ok(micros.saturating_add(500).div_euclid(1_000)),
        "epoch_ns" => micros.checked_mul(1_000).ok_or_else(out_of_range),
        _ => Ok(micros),
    }
}

/// The timestamp of milliseconds since 1970.
fn of_units(call: &Call) -> Result<ArrayRef> {
    call.map1::<Int, Timestamp>(|millis| {
        let micros = millis.checked_mul(1_000).ok_or_else(out_of_range)?;
        local(micros).map(|_| Some(micros))
    })
}

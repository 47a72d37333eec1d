//! `justify_days`, `justify_hours` and `justify_interval` of PostgreSQL.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, exec_datafusion_err};

use crate::scalar::{Call, Definition, Interval, Kind, Overload};

const INTERVAL: &[Kind] = &[Kind::Interval];
const DAY_NANOS: i64 = 86_400_000_000_000;
const MONTH_DAYS: i64 = 30;

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("justify_days", &[Overload::new(INTERVAL, Kind::Interval, days_rows)]),
    Definition::new("justify_hours", &[Overload::new(INTERVAL, Kind::Interval, hours_rows)]),
    Definition::new("justify_interval", &[Overload::new(INTERVAL, Kind::Interval, all_rows)])
        .alias(&["normalized_interval"]),
];

/// Months, days and nanoseconds, without bounds.
type Fields = (i64, i64, i64);

fn days_rows(call: &Call) -> Result<ArrayRef> {
    justified(call, days)
}

fn hours_rows(call: &Call) -> Result<ArrayRef> {
    justified(call, hours)
}

fn all_rows(call: &Call) -> Result<ArrayRef> {
    justified(call, all)
}

fn justified(call: &Call, justify: fn(Fields) -> Fields) -> Result<ArrayRef> {
    call.map1::<Interval, Interval>(|interval| {
        let fields = (interval.months.into(), interval.days.into(), interval.nanoseconds);
        let (months, days, nanos) = justify(fields);
        let out_of_range =
            |_| exec_datafusion_err!("an interval of {} is out of range", call.name());
        let months = i32::try_from(months).map_err(out_of_range)?;
        let days = i32::try_from(days).map_err(out_of_range)?;
        Ok(Some(IntervalMonthDayNano::new(months, days, nanos)))
    })
}

/// Makes months of 30 days, all of one sign.
fn days((months, days, nanos): Fields) -> Fields {
    let (months, days) = one_sign(months + days / MONTH_DAYS, days % MONTH_DAYS, MONTH_DAYS);
    (months, days, nanos)
}

/// Makes days of 24 hours, all of one sign.
fn hours((months, days, nanos): Fields) -> Fields {
    let (days, nanos) = one_sign(days + nanos / DAY_NANOS, nanos % DAY_NANOS, DAY_NANOS);
    (months, days, nanos)
}

/// Makes days of hours and months of days, all three of one sign.
fn all((months, days, nanos): Fields) -> Fields {
    let (mut days, mut nanos) = (days + nanos / DAY_NANOS, nanos % DAY_NANOS);
    let mut months = months + days / MONTH_DAYS;
    days %= MONTH_DAYS;
    if months > 0 && (days < 0 || (days == 0 && nanos < 0)) {
        days += MONTH_DAYS;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && nanos > 0)) {
        days -= MONTH_DAYS;
        months += 1;
    }
    (days, nanos) = one_sign(days, nanos, DAY_NANOS);
    (months, days, nanos)
}

/// Gives two parts one sign, where `unit` of the second is one of the first.
fn one_sign(large: i64, small: i64, unit: i64) -> (i64, i64) {
    match (large.signum(), small.signum()) {
        (1, -1) => (large - 1, small + unit),
        (-1, 1) => (large + 1, small - unit),
        _ => (large, small),
    }
}

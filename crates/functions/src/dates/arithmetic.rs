//! `date_add` of DuckDB, and sums of instants and intervals.

use chrono::{Months, NaiveDateTime, TimeDelta};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, exec_datafusion_err};

use super::clock::session_zone;
use super::moment::{instant_of, local, micros};
use crate::scalar::{Call, Definition, Interval, Kind, Overload, Timestamp};

pub(super) const FUNCTIONS: &[Definition] = &[Definition::new(
    "date_add",
    &[Overload::new(&[Kind::Timestamp, Kind::Interval], Kind::Timestamp, add)],
)];

fn add(call: &Call) -> Result<ArrayRef> {
    call.map2::<Timestamp, Interval, Timestamp>(|time, interval| {
        let sum = sum(local(time)?, interval);
        let sum = sum.ok_or_else(|| exec_datafusion_err!("a sum of date_add is out of range"))?;
        Ok(Some(micros(sum)))
    })
}

/// Adds months, which end on the last day of a month at the latest, then days, then the rest.
pub(crate) fn sum(time: NaiveDateTime, interval: IntervalMonthDayNano) -> Option<NaiveDateTime> {
    add_months(time, interval.months.into())?
        .checked_add_signed(TimeDelta::try_days(interval.days.into())?)?
        .checked_add_signed(TimeDelta::nanoseconds(interval.nanoseconds))
}

/// Adds months; a day that the month does not have becomes its last.
pub(super) fn add_months(time: NaiveDateTime, months: i64) -> Option<NaiveDateTime> {
    let number = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    match months {
        0.. => time.checked_add_months(number),
        _ => time.checked_sub_months(number),
    }
}

/// Adds months and days to the local time of an instant, and the rest to the instant of that, as
/// PostgreSQL does; `None` beyond the calendar.
pub(crate) fn sum_in_zone(
    instant: NaiveDateTime,
    interval: IntervalMonthDayNano,
    zone: Tz,
) -> Option<NaiveDateTime> {
    let here = instant.and_utc().with_timezone(&zone).naive_local();
    let days = sum(here, IntervalMonthDayNano { nanoseconds: 0, ..interval })?;
    let rest = IntervalMonthDayNano { months: 0, days: 0, ..interval };
    sum(instant_of(days, zone)?, rest)
}

/// The instants after intervals, whose months and days are those of the session's time zone.
pub(super) fn after(call: &Call) -> Result<ArrayRef> {
    moved(call, Some)
}

/// The instants before intervals, as [`after`].
pub(super) fn before(call: &Call) -> Result<ArrayRef> {
    moved(call, negative)
}

fn moved(
    call: &Call,
    change: fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let zone = session_zone(call.options())?;
    call.map2::<Timestamp, Interval, Timestamp>(|instant, interval| {
        let sum = change(interval).and_then(|interval| moved_by(instant, interval, zone));
        sum.map(Some).ok_or_else(|| exec_datafusion_err!("timestamp out of range"))
    })
}

/// An instant moved by an interval, in microseconds since 1970.
fn moved_by(instant: i64, interval: IntervalMonthDayNano, zone: Tz) -> Option<i64> {
    if interval.months == 0 && interval.days == 0 {
        return instant.checked_add(interval.nanoseconds / 1_000);
    }
    sum_in_zone(local(instant).ok()?, interval, zone).map(micros)
}

fn negative(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let (months, days) = (months.checked_neg()?, days.checked_neg()?);
    Some(IntervalMonthDayNano::new(months, days, nanoseconds.checked_neg()?))
}

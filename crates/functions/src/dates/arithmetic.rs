//! `date_add` of DuckDB.

use chrono::{Months, NaiveDateTime, TimeDelta};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, exec_datafusion_err};

use super::moment::{local, micros};
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

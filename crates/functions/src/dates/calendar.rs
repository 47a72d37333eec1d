//! Names of days and months, ends of months, and finite values.

use chrono::Datelike as _;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::moment::{days, local, month_end};
use super::names::{DAYS, MONTHS};
use crate::scalar::{
    Bool, Call, Date, Definition, Double, Int, Interval, Kind, Overload, Text, Timestamp,
};

const TIMESTAMP: &[Kind] = &[Kind::Timestamp];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("dayname", &[Overload::new(TIMESTAMP, Kind::Text, dayname)]),
    Definition::new("monthname", &[Overload::new(TIMESTAMP, Kind::Text, monthname)]),
    Definition::new("last_day", &[Overload::new(TIMESTAMP, Kind::Date, last_day)]),
    Definition::new("days_in_month", &[Overload::new(TIMESTAMP, Kind::Integer, days_in_month)]),
    Definition::new(
        "isfinite",
        &[
            Overload::new(&[Kind::Double], Kind::Boolean, is_finite),
            Overload::new(TIMESTAMP, Kind::Boolean, is_timestamp),
            Overload::new(&[Kind::Interval], Kind::Boolean, is_interval),
        ],
    ),
    Definition::new("isinf", &[Overload::new(&[Kind::Double], Kind::Boolean, is_infinite)]),
];

fn dayname(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Text>(|time| {
        let day = local(time)?.weekday().num_days_from_sunday();
        Ok(usize::try_from(day).ok().and_then(|day| DAYS.get(day)).map(|&name| name.into()))
    })
}

fn monthname(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Text>(|time| {
        let month = usize::try_from(local(time)?.month0()).ok();
        Ok(month.and_then(|month| MONTHS.get(month)).map(|&name| name.into()))
    })
}

fn last_day(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Date>(|time| {
        let date = local(time)?.date();
        Ok(date.with_day(month_end(date)).map(days))
    })
}

fn days_in_month(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Int>(|time| Ok(Some(month_end(local(time)?.date()).into())))
}

fn is_finite(call: &Call) -> Result<ArrayRef> {
    call.map1::<Double, Bool>(|number| Ok(Some(number.is_finite())))
}

fn is_infinite(call: &Call) -> Result<ArrayRef> {
    call.map1::<Double, Bool>(|number| Ok(Some(number.is_infinite())))
}

/// Timestamps have no infinity here.
fn is_timestamp(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Bool>(|_| Ok(Some(true)))
}

fn is_interval(call: &Call) -> Result<ArrayRef> {
    call.map1::<Interval, Bool>(|_| Ok(Some(true)))
}

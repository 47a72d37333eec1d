//! Fields of dates, times and intervals as functions, such as `year(x)`, as in DuckDB.

use chrono::{Datelike as _, NaiveDate};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::{Result, exec_err};

use super::moment::{DAY, HOUR, MINUTE, SECOND, days, local};
use super::part::Part;
use crate::scalar::{
    Call, Decimal, Definition, Double, Int, Interval, Kind, Overload, Returns, Time, Timestamp,
};

const OF_TIMESTAMP: Overload = Overload::new(&[Kind::Timestamp], Kind::Integer, of_timestamp);
const OF_INTERVAL: Overload = Overload::new(&[Kind::Interval], Kind::Integer, of_interval);
const OF_TIME: Overload = Overload::new(&[Kind::Time], Kind::Integer, of_time);
const DATES: &[Overload] = &[OF_TIMESTAMP];
const DATES_AND_INTERVALS: &[Overload] = &[OF_TIMESTAMP, OF_INTERVAL];
const ALL: &[Overload] = &[OF_TIMESTAMP, OF_INTERVAL, OF_TIME];

/// `extract(second FROM x)`, a decimal with the fraction, as in PostgreSQL.
pub(super) const SECONDS: &str = "seconds with fraction";

/// `extract(milliseconds FROM x)`, a decimal too.
pub(super) const MILLISECONDS: &str = "milliseconds with fraction";

/// The Julian day of 1970-01-01.
const JULIAN_1970: i32 = 2_440_588;

const SECONDS_OF: &[Overload] = &[
    Overload::returning(&[Kind::Timestamp], Returns::By(seconds), minute_of_timestamp),
    Overload::returning(&[Kind::Interval], Returns::By(seconds), minute_of_interval),
    Overload::returning(&[Kind::Time], Returns::By(seconds), minute_of_time),
];
const MILLISECONDS_OF: &[Overload] = &[
    Overload::returning(&[Kind::Timestamp], Returns::By(milliseconds), minute_of_timestamp),
    Overload::returning(&[Kind::Interval], Returns::By(milliseconds), minute_of_interval),
    Overload::returning(&[Kind::Time], Returns::By(milliseconds), minute_of_time),
];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("millennium", DATES_AND_INTERVALS),
    Definition::new("century", DATES_AND_INTERVALS),
    Definition::new("decade", DATES_AND_INTERVALS),
    Definition::new("year", DATES_AND_INTERVALS),
    Definition::new("isoyear", DATES),
    Definition::new("quarter", DATES_AND_INTERVALS),
    Definition::new("month", DATES_AND_INTERVALS),
    Definition::new("week", DATES).alias(&["weekofyear"]),
    Definition::new("yearweek", DATES),
    Definition::new("day", DATES_AND_INTERVALS).alias(&["dayofmonth"]),
    Definition::new("dayofweek", DATES).alias(&["weekday"]),
    Definition::new("isodow", DATES),
    Definition::new("dayofyear", DATES),
    Definition::new("hour", ALL),
    Definition::new("minute", ALL),
    Definition::new("second", ALL),
    Definition::new("millisecond", ALL),
    Definition::new("microsecond", ALL),
    Definition::new("nanosecond", ALL),
    Definition::new("timezone_hour", DATES),
    Definition::new("timezone_minute", DATES),
    Definition::new("era", DATES),
    Definition::new(SECONDS, SECONDS_OF),
    Definition::new(MILLISECONDS, MILLISECONDS_OF),
    Definition::new("julian", &[Overload::new(&[Kind::Timestamp], Kind::Double, julian)]),
];

fn of_timestamp(call: &Call) -> Result<ArrayRef> {
    let part = Part::named(call.name())?;
    if matches!(part, Part::TimeZoneHour | Part::TimeZoneMinute) {
        return call.rows_of::<Int>(|row| zone_field(call, part, row));
    }
    call.map1::<Timestamp, Int>(|time| timestamp_field(part, time).map(Some))
}

/// The hours or minutes of the offset of a time zone; those of a local time are 0, as in DuckDB.
fn zone_field(call: &Call, part: Part, row: usize) -> Result<Option<i64>> {
    if call.is_null(0, row)? {
        return Ok(None);
    }
    let offset = call.zone(0, row)?.map_or(0, |(_, offset)| offset);
    Ok(Some(if part == Part::TimeZoneHour { offset / HOUR } else { offset % HOUR / MINUTE }))
}

fn of_interval(call: &Call) -> Result<ArrayRef> {
    let part = Part::named(call.name())?;
    call.map1::<Interval, Int>(|interval| interval_field(part, interval).map(Some))
}

fn of_time(call: &Call) -> Result<ArrayRef> {
    let part = Part::named(call.name())?;
    call.map1::<Time, Int>(|nanos| time_field(part, nanos / 1_000).map(Some))
}

/// The type of microseconds as seconds.
fn seconds(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Decimal128(8, 6))
}

/// The type of microseconds as milliseconds.
fn milliseconds(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Decimal128(8, 3))
}

/// The microseconds since the start of the minute.
fn minute_of_timestamp(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Decimal>(|micros| Ok(Some(micros.rem_euclid(MINUTE).into())))
}

fn minute_of_interval(call: &Call) -> Result<ArrayRef> {
    call.map1::<Interval, Decimal>(|it| Ok(Some((it.nanoseconds / 1_000 % MINUTE).into())))
}

fn minute_of_time(call: &Call) -> Result<ArrayRef> {
    call.map1::<Time, Decimal>(|nanos| Ok(Some((nanos / 1_000 % MINUTE).into())))
}

/// A field of a local time, in microseconds since 1970.
pub(super) fn timestamp_field(part: Part, micros: i64) -> Result<i64> {
    let date = local(micros)?.date();
    let year = i64::from(date.year());
    Ok(match part {
        Part::Millennium => ordinal(year, 1_000),
        Part::Century => ordinal(year, 100),
        Part::Decade => year.div_euclid(10),
        Part::Year => year,
        Part::IsoYear => date.iso_week().year().into(),
        Part::Quarter => i64::from(date.month0() / 3) + 1,
        Part::Month => date.month().into(),
        Part::Week => date.iso_week().week().into(),
        Part::YearWeek => year_week(date),
        Part::Day => date.day().into(),
        Part::DayOfWeek => date.weekday().num_days_from_sunday().into(),
        Part::IsoDayOfWeek => date.weekday().number_from_monday().into(),
        Part::DayOfYear => date.ordinal().into(),
        Part::Era => i64::from(year > 0),
        Part::Julian => (JULIAN_1970 + days(date)).into(),
        part => time_field(part, micros.rem_euclid(DAY))?,
    })
}

/// The number of a year's century or millennium: there is no year 0.
fn ordinal(year: i64, years: i64) -> i64 {
    match year {
        1.. => (year - 1) / years + 1,
        _ => -(-year / years + 1),
    }
}

fn year_week(date: NaiveDate) -> i64 {
    let (year, week) = (i64::from(date.iso_week().year()), i64::from(date.iso_week().week()));
    year * 100 + if year > 0 { week } else { -week }
}

/// A field of a time of day, in microseconds; milliseconds and below include the seconds.
fn time_field(part: Part, micros: i64) -> Result<i64> {
    let minute = micros % MINUTE;
    Ok(match part {
        Part::Hour => micros / HOUR,
        Part::Minute => micros % HOUR / MINUTE,
        Part::Second => minute / SECOND,
        Part::Millisecond => minute / 1_000,
        Part::Microsecond => minute,
        Part::Nanosecond => minute * 1_000,
        other => return exec_err!("a time has no {}", other.name()),
    })
}

fn interval_field(part: Part, interval: IntervalMonthDayNano) -> Result<i64> {
    let months = i64::from(interval.months);
    Ok(match part {
        Part::Millennium => months / 12_000,
        Part::Century => months / 1_200,
        Part::Decade => months / 120,
        Part::Year => months / 12,
        Part::Quarter => months % 12 / 3 + 1,
        Part::Month => months % 12,
        Part::Day => interval.days.into(),
        part => time_field(part, interval.nanoseconds / 1_000)?,
    })
}

/// The Julian day with the time of day as its fraction.
fn julian(call: &Call) -> Result<ArrayRef> {
    call.map1::<Timestamp, Double>(|micros| {
        let day = JULIAN_1970 + days(local(micros)?.date());
        // A part of a day has less than 2^53 microseconds.
        Ok(Some(f64::from(day) + micros.rem_euclid(DAY) as f64 / DAY as f64))
    })
}

//! `strftime`: dates and times as texts.

use std::fmt::Write as _;

use chrono::{Datelike as _, NaiveDateTime, Timelike as _};
use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::moment::{MINUTE, local};
use super::names::{DAYS, MONTHS, short};
use super::specifier::{Number, Specifier, parsed};
use crate::scalar::{Call, Definition, Input, Kind, Overload, Text, Time, Timestamp};

pub(super) const FUNCTIONS: &[Definition] = &[Definition::new(
    "strftime",
    &[
        Overload::new(&[Kind::Timestamp, Kind::Text], Kind::Text, value_first),
        Overload::new(&[Kind::Text, Kind::Timestamp], Kind::Text, format_first),
        Overload::new(&[Kind::Time, Kind::Text], Kind::Text, time),
    ],
)
.alias(&["date_format"])];

fn value_first(call: &Call) -> Result<ArrayRef> {
    formatted::<Timestamp>(call, 0, 1, Ok)
}

fn format_first(call: &Call) -> Result<ArrayRef> {
    formatted::<Timestamp>(call, 1, 0, Ok)
}

fn time(call: &Call) -> Result<ArrayRef> {
    formatted::<Time>(call, 0, 1, |nanos| Ok(nanos / 1_000))
}

/// Formats the values of one argument by the formats of another. A format is read once for
/// consecutive rows.
fn formatted<'a, A: Input>(
    call: &'a Call,
    value: usize,
    format: usize,
    micros: fn(A::Item<'a>) -> Result<i64>,
) -> Result<ArrayRef> {
    let mut known: Option<(&str, Vec<Specifier>)> = None;
    call.rows_of::<Text>(|row| {
        let (time, format) = (call.value::<A>(value, row)?, call.value::<Text>(format, row)?);
        let (Some(time), Some(format)) = (time, format) else { return Ok(None) };
        let specifiers = match &known {
            Some((of, specifiers)) if *of == format => specifiers,
            _ => &known.insert((format, parsed(format)?)).1,
        };
        let (time, zone) = (local(micros(time)?)?, call.zone(value, row)?);
        let mut text = String::with_capacity(format.len() + 16);
        for specifier in specifiers {
            write(specifier, time, zone, &mut text);
        }
        Ok(Some(text.into()))
    })
}

fn write(specifier: &Specifier, time: NaiveDateTime, zone: Option<(&str, i64)>, text: &mut String) {
    let weekday = time.weekday();
    let name = |names: &[&'static str], at: u32| {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("")
    };
    let day = || name(&DAYS, weekday.num_days_from_sunday());
    // Writing to a text cannot fail.
    let _ = match specifier {
        Specifier::Literal(literal) => text.write_str(literal),
        Specifier::ShortDayName => text.write_str(short(day())),
        Specifier::DayName => text.write_str(day()),
        Specifier::DayOfWeek => write!(text, "{}", weekday.num_days_from_sunday()),
        Specifier::IsoDayOfWeek => write!(text, "{}", weekday.number_from_monday()),
        Specifier::ShortMonthName => text.write_str(short(name(&MONTHS, time.month0()))),
        Specifier::MonthName => text.write_str(name(&MONTHS, time.month0())),
        Specifier::HalfOfDay => text.write_str(if time.hour() < 12 { "AM" } else { "PM" }),
        Specifier::Offset => write_offset(zone.map_or(0, |(_, offset)| offset / MINUTE), text),
        Specifier::ZoneName => text.write_str(zone.map_or("", |(name, _)| name)),
        Specifier::Number(number, digits, is_padded) => {
            let value = value(*number, time);
            let sign = if value < 0 { "-" } else { "" };
            let digits = if *is_padded { *digits } else { 1 };
            write!(text, "{sign}{:0digits$}", value.unsigned_abs())
        }
    };
}

/// Writes an offset from UTC, such as `+02` or `-03:30`.
fn write_offset(minutes: i64, text: &mut String) -> std::fmt::Result {
    let sign = if minutes < 0 { '-' } else { '+' };
    write!(text, "{sign}{:02}", minutes.abs() / 60)?;
    match minutes.abs() % 60 {
        0 => Ok(()),
        rest => write!(text, ":{rest:02}"),
    }
}

fn value(number: Number, time: NaiveDateTime) -> i64 {
    let nanos = i64::from(time.nanosecond());
    match number {
        Number::Day => time.day().into(),
        Number::Month => time.month().into(),
        Number::Year => time.year().into(),
        Number::YearOfCentury => time.year().rem_euclid(100).into(),
        Number::IsoYear => time.iso_week().year().into(),
        Number::IsoWeek => time.iso_week().week().into(),
        Number::WeekFromSunday => week(time.ordinal0(), time.weekday().num_days_from_sunday()),
        Number::WeekFromMonday => week(time.ordinal0(), time.weekday().num_days_from_monday()),
        Number::DayOfYear => time.ordinal().into(),
        Number::Hour => time.hour().into(),
        Number::HalfHour => i64::from((time.hour() + 11) % 12) + 1,
        Number::Minute => time.minute().into(),
        Number::Second => time.second().into(),
        Number::Milliseconds => nanos / 1_000_000,
        Number::Microseconds => nanos / 1_000,
        Number::Nanoseconds => nanos,
    }
}

/// The week of a day of the year, where week 1 begins on the first first day of a week.
fn week(day_of_year: u32, day_of_week: u32) -> i64 {
    i64::from((day_of_year + 7 - day_of_week) / 7)
}

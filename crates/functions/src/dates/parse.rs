//! `strptime`: texts as timestamps.

use chrono::{NaiveDate, NaiveTime, Weekday};
use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::common::{Result, exec_err};

use super::moment::{HOUR, MINUTE, SECOND, micros};
use super::names::{DAYS, MONTHS, short};
use super::specifier::{Number, Specifier, parsed};
use crate::scalar::{Call, Definition, Kind, Overload, Text, TextList, Timestamp};

const OVERLOADS: &[Overload] = &[
    Overload::new(&[Kind::Text, Kind::Text], Kind::Timestamp, one_format),
    Overload::new(&[Kind::Text, Kind::Texts], Kind::Timestamp, first_format),
];

/// Timestamps are without time zone; one of a text with an offset is in UTC.
pub(super) const FUNCTIONS: &[Definition] =
    &[Definition::new("strptime", OVERLOADS), Definition::new("try_strptime", OVERLOADS)];

/// Cache of parsed formats; mostly all rows have the same ones.
#[derive(Default)]
struct Formats(Vec<(String, Vec<Specifier>)>);

impl Formats {
    fn read(&mut self, text: &str, format: &str) -> Result<Option<i64>> {
        let known = self.0.iter().position(|(known, _)| known == format);
        let at = match known {
            Some(at) => at,
            None => {
                // So that formats of many rows are not kept.
                if self.0.len() >= 16 {
                    self.0.clear();
                }
                self.0.push((format.to_owned(), parsed(format)?));
                self.0.len() - 1
            }
        };
        Ok(self.0.get(at).and_then(|(_, specifiers)| read(text, specifiers)))
    }
}

fn one_format(call: &Call) -> Result<ArrayRef> {
    let mut formats = Formats::default();
    call.map2::<Text, Text, Timestamp>(|text, format| match formats.read(text, format)? {
        None if call.name() == "strptime" => {
            exec_err!("{text:?} is no timestamp in the format {format:?}")
        }
        time => Ok(time),
    })
}

fn first_format(call: &Call) -> Result<ArrayRef> {
    let mut formats = Formats::default();
    call.map2::<Text, TextList, Timestamp>(|text, list| {
        let list = list.as_string::<i32>();
        for at in (0..list.len()).filter(|&at| !list.is_null(at)) {
            if let Some(time) = formats.read(text, list.value(at))? {
                return Ok(Some(time));
            }
        }
        match call.name() {
            "strptime" => exec_err!("{text:?} is no timestamp in any of the formats"),
            _ => Ok(None),
        }
    })
}

/// Fields read from a text; missing ones have their default, 1900-01-01 00:00:00.
struct Fields {
    year: i32,
    month: u32,
    day: u32,
    day_of_year: Option<u32>,
    iso_year: Option<i32>,
    iso_week: Option<u32>,
    iso_day: Option<u32>,
    hour: i64,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    nanos: i64,
    offset: i64,
}

/// Reads a text by a format, in microseconds since 1970; `None` if it does not match. Blanks around
/// the text are ignored.
fn read(text: &str, specifiers: &[Specifier]) -> Option<i64> {
    let mut fields = Fields {
        year: 1900,
        month: 1,
        day: 1,
        day_of_year: None,
        iso_year: None,
        iso_week: None,
        iso_day: None,
        hour: 0,
        is_afternoon: None,
        minute: 0,
        second: 0,
        nanos: 0,
        offset: 0,
    };
    let mut rest = text.trim_ascii();
    for specifier in specifiers {
        rest = fields.take(specifier, rest)?;
    }
    if rest.is_empty() { fields.micros() } else { None }
}

impl Fields {
    /// Takes a field from the begin of a text and returns the rest.
    fn take<'a>(&mut self, specifier: &Specifier, text: &'a str) -> Option<&'a str> {
        match specifier {
            Specifier::Literal(literal) => text.strip_prefix(literal.as_str()),
            Specifier::ShortDayName => named(text, DAYS.iter().map(|name| short(name))).map(rest),
            Specifier::DayName => named(text, DAYS.iter().copied()).map(rest),
            Specifier::ShortMonthName => {
                self.take_month(named(text, MONTHS.iter().map(|name| short(name))))
            }
            Specifier::MonthName => self.take_month(named(text, MONTHS.iter().copied())),
            Specifier::HalfOfDay => {
                let (half, rest) = named(text, ["AM", "PM"].into_iter())?;
                self.is_afternoon = Some(half == 1);
                Some(rest)
            }
            Specifier::Offset => self.take_offset(text),
            Specifier::ZoneName => {
                let is_name =
                    |letter: char| letter.is_ascii_alphanumeric() || "/_+-".contains(letter);
                Some(text.trim_start_matches(is_name))
            }
            Specifier::DayOfWeek => Some(digits(text, 1)?.1),
            Specifier::IsoDayOfWeek => {
                let (day, rest) = digits(text, 1)?;
                self.iso_day = u32::try_from(day).ok();
                Some(rest)
            }
            Specifier::Number(number, width, _) => self.take_number(*number, *width, text),
        }
    }

    fn take_month<'a>(&mut self, found: Option<(usize, &'a str)>) -> Option<&'a str> {
        let (month, rest) = found?;
        self.month = u32::try_from(month).ok()? + 1;
        Some(rest)
    }

    fn take_number<'a>(&mut self, number: Number, width: usize, text: &'a str) -> Option<&'a str> {
        let (is_negative, text) = match number {
            Number::Year if text.starts_with('-') => (true, text.get(1..)?),
            _ => (false, text),
        };
        let (value, rest) = digits(text, width)?;
        let unsigned = u32::try_from(value).ok()?;
        match number {
            Number::Day => self.day = unsigned,
            Number::Month => self.month = unsigned,
            Number::Year => {
                let year = i32::try_from(value).ok()?;
                self.year = if is_negative { -year } else { year };
            }
            Number::YearOfCentury => {
                let year = i32::try_from(value).ok()?;
                self.year = year + if year < 69 { 2_000 } else { 1_900 };
            }
            Number::IsoYear => self.iso_year = i32::try_from(value).ok(),
            Number::IsoWeek => self.iso_week = Some(unsigned),
            Number::WeekFromSunday | Number::WeekFromMonday => {}
            Number::DayOfYear => self.day_of_year = Some(unsigned),
            Number::Hour => self.hour = within(value, 0, 23)?,
            Number::HalfHour => self.hour = within(value, 1, 12)?,
            Number::Minute => self.minute = within(value, 0, 59)?,
            Number::Second => self.second = within(value, 0, 59)?,
            Number::Milliseconds | Number::Microseconds | Number::Nanoseconds => {
                let read = u32::try_from(text.len() - rest.len()).ok()?;
                self.nanos = value * 10_i64.pow(9_u32.checked_sub(read)?);
            }
        }
        Some(rest)
    }

    /// Takes an offset from UTC: `Z`, or a sign, hours and minutes.
    fn take_offset<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if let Some(rest) = text.strip_prefix('Z') {
            return Some(rest);
        }
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let (hours, rest) = digits(text.strip_prefix(['+', '-'])?, 2)?;
        let (minutes, rest) = match rest.strip_prefix(':') {
            Some(rest) => digits(rest, 2)?,
            None => digits(rest, 2).unwrap_or((0, rest)),
        };
        self.offset = sign * (hours * HOUR + within(minutes, 0, 59)? * MINUTE);
        Some(rest)
    }

    fn micros(&self) -> Option<i64> {
        let date = match (self.iso_week, self.day_of_year) {
            (Some(week), _) => {
                let day = self.iso_day.unwrap_or(1).checked_sub(1)?;
                let day = Weekday::try_from(u8::try_from(day).ok()?);
                NaiveDate::from_isoywd_opt(self.iso_year?, week, day.ok()?)?
            }
            (_, Some(day)) => NaiveDate::from_yo_opt(self.year, day)?,
            _ => NaiveDate::from_ymd_opt(self.year, self.month, self.day)?,
        };
        let hour = match self.is_afternoon {
            Some(_) if self.hour > 12 => return None,
            Some(is_afternoon) => self.hour % 12 + if is_afternoon { 12 } else { 0 },
            None => self.hour,
        };
        let time = hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.nanos / 1_000;
        Some(micros(date.and_time(NaiveTime::MIN)) + time - self.offset)
    }
}

fn rest((_, rest): (usize, &str)) -> &str {
    rest
}

fn within(value: i64, least: i64, most: i64) -> Option<i64> {
    (least..=most).contains(&value).then_some(value)
}

/// The number of at most `width` digits that a text begins with, and the rest.
fn digits(text: &str, width: usize) -> Option<(i64, &str)> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let end = text.bytes().take(width).take_while(is_digit).count();
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// The position of the name that a text begins with, in any case, and the rest.
fn named(text: &str, mut names: impl Iterator<Item = &'static str>) -> Option<(usize, &str)> {
    let is_begin =
        |name: &str| text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    let mut length = 0;
    let at = names.position(|name| {
        length = name.len();
        is_begin(name)
    })?;
    Some((at, text.get(length..)?))
}

//! Templates of `to_char` for dates, times and intervals, as in PostgreSQL.

use std::fmt::Write as _;

use chrono::{Datelike as _, NaiveDate, NaiveDateTime, Timelike as _};
use datafusion::common::{Result, exec_err};
use terrace_functions::{DAYS, MONTHS};

pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// Width of the names of months and days without `FM`.
const NAME_WIDTH: usize = 9;
/// The day before 0001-01-01 as a Julian day.
pub(super) const JULIAN_DAY_BEFORE_CE: i64 = 1_721_425;

/// A field of a value that a template can show, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Era,
    EraWithPeriods,
    Half,
    HalfWithPeriods,
    Century,
    MonthName,
    MonthAbbreviation,
    RomanMonth,
    DayName,
    DayAbbreviation,
    DayOfYear,
    DayOfMonth,
    DayOfWeek,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    IsoYear(u8),
    JulianDay,
    Hour12,
    Hour24,
    Minute,
    Second,
    /// This many digits of a second's fraction.
    Fraction(u8),
    SecondOfDay,
    Month,
    Quarter,
    Week,
    WeekOfMonth,
    Year(u8),
    YearWithComma,
    Zone,
    ZoneHours,
    ZoneMinutes,
    Offset,
    /// `FX`, which affects only parsing.
    Nothing,
}

/// Keywords in capitals, ordered so that a keyword precedes its own prefixes.
const KEYWORDS: &[(&str, Field)] = &[
    ("MONTH", Field::MonthName),
    ("SSSSS", Field::SecondOfDay),
    ("Y,YYY", Field::YearWithComma),
    ("A.D.", Field::EraWithPeriods),
    ("A.M.", Field::HalfWithPeriods),
    ("B.C.", Field::EraWithPeriods),
    ("HH12", Field::Hour12),
    ("HH24", Field::Hour24),
    ("IDDD", Field::IsoDayOfYear),
    ("IYYY", Field::IsoYear(4)),
    ("P.M.", Field::HalfWithPeriods),
    ("SSSS", Field::SecondOfDay),
    ("YYYY", Field::Year(4)),
    ("DAY", Field::DayName),
    ("DDD", Field::DayOfYear),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("IYY", Field::IsoYear(3)),
    ("MON", Field::MonthAbbreviation),
    ("TZH", Field::ZoneHours),
    ("TZM", Field::ZoneMinutes),
    ("YYY", Field::Year(3)),
    ("AD", Field::Era),
    ("AM", Field::Half),
    ("BC", Field::Era),
    ("CC", Field::Century),
    ("DD", Field::DayOfMonth),
    ("DY", Field::DayAbbreviation),
    ("FX", Field::Nothing),
    ("HH", Field::Hour12),
    ("ID", Field::IsoDayOfWeek),
    ("IW", Field::IsoWeek),
    ("IY", Field::IsoYear(2)),
    ("MI", Field::Minute),
    ("MM", Field::Month),
    ("MS", Field::Fraction(3)),
    ("OF", Field::Offset),
    ("PM", Field::Half),
    ("RM", Field::RomanMonth),
    ("SS", Field::Second),
    ("TZ", Field::Zone),
    ("US", Field::Fraction(6)),
    ("WW", Field::Week),
    ("YY", Field::Year(2)),
    ("D", Field::DayOfWeek),
    ("I", Field::IsoYear(1)),
    ("J", Field::JulianDay),
    ("Q", Field::Quarter),
    ("W", Field::WeekOfMonth),
    ("Y", Field::Year(1)),
];

/// The case of a name, determined by the case of its keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Title,
    Lower,
}

impl Case {
    fn applied(self, name: &str) -> String {
        match self {
            Self::Upper => name.to_uppercase(),
            Self::Title => name.to_owned(),
            Self::Lower => name.to_lowercase(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Literal(char),
    Field { field: Field, case: Case, unpadded: bool, ordinal: Option<Case> },
}

/// A parsed template for a date, a time or an interval.
#[derive(Debug)]
pub(super) struct TimeTemplate {
    items: Vec<Item>,
}

/// The fields of a value; an interval has no calendar day.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    microsecond: i64,
    /// The calendar day, if the value has one.
    date: Option<NaiveDate>,
    /// Seconds east of UTC, and the zone's name.
    zone: Option<(i32, String)>,
}

impl Fields {
    /// The fields of a local time, with the offset and the name of its zone, if any.
    pub(super) fn of_time(time: NaiveDateTime, zone: Option<(i32, String)>) -> Self {
        Self {
            year: i64::from(time.year()),
            month: i64::from(time.month()),
            day: i64::from(time.day()),
            hour: i64::from(time.hour()),
            minute: i64::from(time.minute()),
            second: i64::from(time.second()),
            microsecond: i64::from(time.nanosecond() / 1_000),
            date: Some(time.date()),
            zone,
        }
    }

    /// The fields of an interval of months, days and nanoseconds.
    pub(super) fn of_interval(months: i32, days: i32, nanoseconds: i64) -> Self {
        let seconds = nanoseconds / 1_000_000_000;
        Self {
            year: i64::from(months) / 12,
            month: i64::from(months) % 12,
            day: i64::from(days),
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            microsecond: nanoseconds % 1_000_000_000 / 1_000,
            date: None,
            zone: None,
        }
    }

    fn day_of_year(&self) -> i64 {
        match self.date {
            Some(date) => i64::from(date.ordinal()),
            // The days of an interval, with 30 days per month.
            None => (self.year * 12 + self.month) * 30 + self.day,
        }
    }

    /// The year as it is written: there is no year zero, 1 BC precedes 1 AD.
    fn written_year(&self, year: i64) -> i64 {
        if self.date.is_some() && year <= 0 { 1 - year } else { year }
    }
}

impl TimeTemplate {
    /// # Errors
    /// For a format of `strftime`, which would be output verbatim.
    pub(super) fn parsed(text: &str) -> Result<Self> {
        let mut items = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (prefix, behind) = prefix(rest);
            rest = behind;
            if let Some((field, case, behind)) = keyword(rest) {
                let (ordinal, behind) = suffix(behind);
                let unpadded = match prefix {
                    Prefix::None => false,
                    Prefix::Unpadded => true,
                    Prefix::Localized => matches!(field, Field::MonthName | Field::DayName),
                };
                items.push(Item::Field { field, case, unpadded, ordinal });
                rest = behind;
            } else if let Some(quoted) = rest.strip_prefix('"') {
                rest = quotation(quoted, |literal| items.push(Item::Literal(literal)));
            } else {
                rest = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
                let mut characters = rest.chars();
                items.extend(characters.next().map(Item::Literal));
                let behind = characters.as_str();
                if rest.starts_with('%') && behind.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    return exec_err!(
                        "to_char takes templates such as YYYY-MM-DD HH24:MI:SS, not {text}; \
                         strftime takes formats such as %Y-%m-%d"
                    );
                }
                rest = behind;
            }
        }
        Ok(Self { items })
    }

    /// Appends the fields formatted by the template.
    pub(super) fn write(&self, fields: &Fields, text: &mut String) -> Result<()> {
        for item in &self.items {
            match item {
                Item::Literal(literal) => text.push(*literal),
                Item::Field { field, case, unpadded, ordinal } => {
                    let before = text.len();
                    field.write(fields, *case, *unpadded, text)?;
                    if let Some(case) = ordinal
                        && field.is_number()
                        && text.len() > before
                    {
                        let ending = ordinal_ending(&text[before..]);
                        text.push_str(&case.applied(ending));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A prefix of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    None,
    /// `FM`: no padding by zeros or spaces.
    Unpadded,
    /// `TM`: localized names, always those of the C locale; no padding by spaces.
    Localized,
}

/// Splits off the prefix of a keyword.
fn prefix(text: &str) -> (Prefix, &str) {
    let words = [
        ("FM", Prefix::Unpadded),
        ("fm", Prefix::Unpadded),
        ("TM", Prefix::Localized),
        ("tm", Prefix::Localized),
    ];
    for (word, prefix) in words {
        if let Some(behind) = text.strip_prefix(word) {
            return (prefix, behind);
        }
    }
    (Prefix::None, text)
}

/// Splits off the prefix of a keyword; true if it is `FM`.
pub(super) fn prefix_of(text: &str) -> (bool, &str) {
    let (prefix, behind) = prefix(text);
    (prefix == Prefix::Unpadded, behind)
}

/// Splits off the ordinal suffix of a keyword.
pub(super) fn suffix(text: &str) -> (Option<Case>, &str) {
    for (word, ordinal) in [("TH", Some(Case::Upper)), ("th", Some(Case::Lower)), ("SP", None)] {
        if let Some(behind) = text.strip_prefix(word) {
            return (ordinal, behind);
        }
    }
    (None, text)
}

/// Splits off the keyword that a text begins with.
pub(super) fn keyword(text: &str) -> Option<(Field, Case, &str)> {
    for (name, field) in KEYWORDS {
        let Some(word) = text.get(..name.len()) else { continue };
        if !word.eq_ignore_ascii_case(name) {
            continue;
        }
        let titled = matches!(
            field,
            Field::MonthName | Field::MonthAbbreviation | Field::DayName | Field::DayAbbreviation
        );
        let case = if word == *name {
            Case::Upper
        } else if word.chars().all(|letter| !letter.is_ascii_uppercase()) {
            Case::Lower
        } else if titled && word[1..].chars().all(|letter| letter.is_ascii_lowercase()) {
            Case::Title
        } else {
            continue;
        };
        return Some((*field, case, &text[name.len()..]));
    }
    None
}

/// Passes the characters of a quotation, whose opening quote precedes `text`, to `each`. Returns
/// the text after the closing quote. A backslash escapes a character.
pub(super) fn quotation(text: &str, mut each: impl FnMut(char)) -> &str {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => each(characters.next().unwrap_or('\\')),
            _ => each(character),
        }
    }
    characters.as_str()
}

/// The ending of an ordinal number.
pub(super) fn ordinal_ending(number: &str) -> &'static str {
    let mut digits = number.bytes().rev();
    let last = digits.next();
    match (last, digits.next()) {
        (_, Some(b'1')) => "th",
        (Some(b'1'), _) => "st",
        (Some(b'2'), _) => "nd",
        (Some(b'3'), _) => "rd",
        _ => "th",
    }
}

impl Field {
    /// True for a field that `TH` can follow.
    fn is_number(self) -> bool {
        let is_name = self.names_a_day() && self != Self::DayOfWeek;
        let is_word = matches!(self, Self::Half | Self::HalfWithPeriods | Self::RomanMonth);
        !is_name && !is_word
    }

    /// True for a field that begins with digits in a text that is read.
    pub(super) fn reads_digits(self, name: &str) -> bool {
        match self {
            Self::ZoneMinutes | Self::DayOfWeek => true,
            Self::Fraction(_) => !name.starts_with(['F', 'f']),
            Self::RomanMonth | Self::Half | Self::HalfWithPeriods | Self::Nothing => false,
            other => !other.names_a_day(),
        }
    }

    /// True for a field that intervals do not have.
    fn names_a_day(self) -> bool {
        matches!(
            self,
            Self::Era
                | Self::EraWithPeriods
                | Self::MonthName
                | Self::MonthAbbreviation
                | Self::DayName
                | Self::DayAbbreviation
                | Self::DayOfWeek
                | Self::Zone
                | Self::ZoneHours
                | Self::ZoneMinutes
                | Self::Offset
        )
    }

    fn write(self, of: &Fields, case: Case, unpadded: bool, text: &mut String) -> Result<()> {
        let names_a_week = matches!(
            self,
            Self::IsoWeek | Self::IsoYear(_) | Self::IsoDayOfYear | Self::IsoDayOfWeek
        );
        if of.date.is_none() && (self.names_a_day() || names_a_week || self == Self::JulianDay) {
            return exec_err!(
                "to_char was given a template with a field of a day of the calendar; an interval \
                 has none"
            );
        }
        match self.number(of) {
            Some((number, width)) => {
                let is_unpadded = unpadded && !matches!(self, Self::Fraction(_));
                let width = if is_unpadded { 0 } else { width };
                let width = width + usize::from(number < 0 && width > 1 && self.has_sign());
                let _ = write!(text, "{number:0width$}");
            }
            None => self.write_words(of, case, unpadded, text),
        }
        Ok(())
    }

    /// True if a sign adds to the width; in other fields it takes the place of a digit.
    fn has_sign(self) -> bool {
        let of_time = matches!(self, Self::Hour12 | Self::Hour24 | Self::Minute | Self::Second);
        of_time || matches!(self, Self::Month | Self::Century | Self::Year(_) | Self::IsoYear(_))
    }

    /// The field's number and its width, if it is a number.
    fn number(self, of: &Fields) -> Option<(i64, usize)> {
        let date = of.date.unwrap_or_default();
        let iso_day = i64::from(date.weekday().number_from_monday());
        let year = |year: i64, digits: u8| {
            let year = of.written_year(year);
            (if digits == 4 { year } else { year % 10_i64.pow(digits.into()) }, digits.into())
        };
        Some(match self {
            Self::Century => {
                let century = match of.date {
                    None => of.year / 100,
                    Some(_) if of.year > 0 => (of.year - 1) / 100 + 1,
                    Some(_) => of.year / 100 - 1,
                };
                (century, 2)
            }
            Self::DayOfYear => (of.day_of_year(), 3),
            Self::DayOfMonth => (of.day, 2),
            Self::DayOfWeek => (i64::from(date.weekday().num_days_from_sunday()) + 1, 1),
            Self::IsoDayOfYear => ((i64::from(date.iso_week().week()) - 1) * 7 + iso_day, 3),
            Self::IsoDayOfWeek => (iso_day, 1),
            Self::IsoWeek => (date.iso_week().week().into(), 2),
            Self::IsoYear(digits) => year(date.iso_week().year().into(), digits),
            Self::JulianDay => (i64::from(date.num_days_from_ce()) + JULIAN_DAY_BEFORE_CE, 1),
            Self::Hour12 => (if of.hour % 12 == 0 { 12 } else { of.hour % 12 }, 2),
            Self::Hour24 => (of.hour, 2),
            Self::Minute => (of.minute, 2),
            Self::Second => (of.second, 2),
            Self::Fraction(digits) => {
                (of.microsecond / 10_i64.pow(6 - u32::from(digits)), digits.into())
            }
            Self::SecondOfDay => (of.hour * 3_600 + of.minute * 60 + of.second, 1),
            Self::Month => (of.month, 2),
            Self::Quarter if of.month != 0 => ((of.month - 1) / 3 + 1, 1),
            Self::Week => ((of.day_of_year() - 1) / 7 + 1, 2),
            Self::WeekOfMonth => ((of.day - 1) / 7 + 1, 1),
            Self::Year(digits) => year(of.year, digits),
            _ => return None,
        })
    }

    fn write_words(self, of: &Fields, case: Case, unpadded: bool, text: &mut String) {
        let width = |width: usize| if unpadded { 0 } else { width };
        let month = usize::try_from(of.month - 1).ok().and_then(|month| MONTHS.get(month));
        let weekday = of.date.unwrap_or_default().weekday().num_days_from_sunday() as usize;
        let zone = of.zone.as_ref();
        let offset = zone.map_or(0, |(seconds, _)| *seconds);
        let (hours, minutes) = (offset.abs() / 3_600, offset.abs() / 60 % 60);
        let sign = if offset < 0 { '-' } else { '+' };
        // Writing to a text does not fail.
        let _ = match self {
            Self::Era | Self::EraWithPeriods => {
                let era = if of.year <= 0 { "BC" } else { "AD" };
                write!(text, "{}", case.applied(&periods(era, self == Self::EraWithPeriods)))
            }
            Self::Half | Self::HalfWithPeriods => {
                let half = if of.hour % 24 >= 12 { "PM" } else { "AM" };
                write!(text, "{}", case.applied(&periods(half, self == Self::HalfWithPeriods)))
            }
            Self::MonthName => {
                let name = case.applied(month.copied().unwrap_or_default());
                write!(text, "{name:<width$}", width = width(NAME_WIDTH))
            }
            Self::MonthAbbreviation => {
                write!(text, "{}", case.applied(month.map_or("", |name| &name[..3])))
            }
            Self::DayName => {
                let name = case.applied(DAYS[weekday]);
                write!(text, "{name:<width$}", width = width(NAME_WIDTH))
            }
            Self::DayAbbreviation => write!(text, "{}", case.applied(&DAYS[weekday][..3])),
            Self::RomanMonth => {
                let name = roman_month(of).map(|name| case.applied(name));
                let width = if name.is_some() { width(4) } else { 0 };
                write!(text, "{:<width$}", name.unwrap_or_default())
            }
            Self::YearWithComma => {
                let year = of.written_year(of.year);
                write!(text, "{},{:03}", year / 1_000, year % 1_000)
            }
            Self::Zone => {
                let name = zone.map_or("", |(_, name)| name);
                write!(text, "{}", case.applied(name))
            }
            Self::ZoneHours => write!(text, "{sign}{hours:02}"),
            Self::ZoneMinutes => write!(text, "{minutes:02}"),
            Self::Offset => match minutes {
                0 => write!(text, "{sign}{hours:0width$}", width = width(2)),
                _ => write!(text, "{sign}{hours:0width$}:{minutes:02}", width = width(2)),
            },
            _ => Ok(()),
        };
    }
}

/// Puts a period after each letter if `periods`.
fn periods(letters: &str, periods: bool) -> String {
    if periods {
        letters.chars().flat_map(|letter| [letter, '.']).collect()
    } else {
        letters.into()
    }
}

/// The month in Roman numerals; negative months count from the end of the year.
fn roman_month(of: &Fields) -> Option<&'static str> {
    let index = match (of.month, of.year) {
        (0, 0) => return None,
        (0, year) if year > 0 => 11,
        (0, _) => 0,
        (month, _) if month > 0 => month - 1,
        (month, _) => 12 + month,
    };
    usize::try_from(index).ok().and_then(|index| ROMAN_MONTHS.get(index)).copied()
}

//! Parser of a text by a template of `to_date` or `to_timestamp`, as in PostgreSQL.
//!
//! Blanks and separators match each other, and are skipped before fields. A letter of the template
//! skips any letter of the text. The end of the text ends the template, and what follows the
//! template is ignored. `FX` makes the positions of the template those of the text.

use datafusion::common::{Result, exec_err};
use terrace_functions::{DAYS, MONTHS};

use super::pattern::{FieldNode, Node, Pattern, is_blank, is_separator};
use super::times::{Field, ROMAN_MONTHS};

/// The calendar that a template names days by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Convention {
    #[default]
    None,
    Gregorian,
    IsoWeek,
}

/// The fields of a text; zero where the template has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) convention: Convention,
    pub(super) year: i64,
    /// The number of digits of the year in the template.
    pub(super) year_digits: u8,
    pub(super) century: i64,
    /// One for years before 1 AD.
    pub(super) is_bc: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) day_of_year: i64,
    /// The day of the week, from Sunday as 1.
    pub(super) day_of_week: i64,
    pub(super) week: i64,
    pub(super) week_of_month: i64,
    pub(super) julian_day: i64,
    pub(super) hour: i64,
    pub(super) has_halves: bool,
    /// One for hours from noon.
    pub(super) is_pm: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) second_of_day: i64,
    pub(super) millisecond: i64,
    pub(super) microsecond: i64,
    /// The digits of a second's fraction to which the result is rounded.
    pub(super) fraction_digits: u8,
    pub(super) zone_sign: i64,
    pub(super) zone_hours: i64,
    pub(super) zone_minutes: i64,
}

/// Reads the fields of a text.
///
/// # Errors
/// If a field is not in the text, contradicts another one, or cannot be read.
pub(super) fn parts(pattern: &Pattern, text: &str) -> Result<Parts> {
    let reader = Reader { text, at: 0, skipped: 0, is_fixed: false, parts: Parts::default() };
    reader.read(pattern)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The number of characters that were skipped in addition to those of the template.
    skipped: i64,
    is_fixed: bool,
    parts: Parts,
}

impl Reader<'_> {
    fn read(mut self, pattern: &Pattern) -> Result<Parts> {
        for (place, node) in pattern.nodes.iter().enumerate() {
            if self.peek().is_none() {
                break;
            }
            let starts = place == 0 || matches!(node, Node::Field(_));
            let is_fixing = matches!(node, Node::Field(of) if of.field == Field::Nothing);
            if !self.is_fixed && starts && !is_fixing {
                self.skip_blanks();
            }
            match node {
                Node::Separator => self.separator(),
                Node::Letter { .. } if !self.is_fixed && self.skipped > 0 => self.skipped -= 1,
                Node::Letter { .. } => self.skip(),
                Node::Field(of) => {
                    self.follow(of.field)?;
                    self.field(of)?;
                    if !self.is_fixed {
                        self.skipped = 0;
                        self.skip_blanks();
                    }
                }
            }
        }
        Ok(self.parts)
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
            self.skipped += 1;
        }
    }

    fn separator(&mut self) {
        if self.is_fixed {
            return self.skip();
        }
        self.skipped -= 1;
        if self.peek().is_some_and(|next| is_blank(next) || is_separator(next)) {
            self.at += 1;
            self.skipped += 1;
        }
    }

    /// Sets the calendar to that of a field; an error if an earlier field is of another calendar.
    fn follow(&mut self, field: Field) -> Result<()> {
        let convention = match field {
            Field::IsoDayOfYear | Field::IsoDayOfWeek | Field::IsoWeek | Field::IsoYear(_) => {
                Convention::IsoWeek
            }
            Field::MonthName
            | Field::MonthAbbreviation
            | Field::RomanMonth
            | Field::Month
            | Field::DayOfYear
            | Field::DayOfMonth
            | Field::DayOfWeek
            | Field::Week
            | Field::WeekOfMonth
            | Field::Year(_)
            | Field::YearWithComma => Convention::Gregorian,
            _ => return Ok(()),
        };
        match self.parts.convention {
            known if known == convention => Ok(()),
            Convention::None => {
                self.parts.convention = convention;
                Ok(())
            }
            _ => exec_err!(
                "invalid combination of date conventions: do not mix Gregorian and ISO week date \
                 conventions in a template"
            ),
        }
    }

    fn field(&mut self, of: &FieldNode) -> Result<()> {
        match of.field {
            Field::Nothing => {
                self.is_fixed = true;
                return Ok(());
            }
            Field::Zone | Field::Offset => {
                return exec_err!("the template field {:?} is only supported in to_char", of.name);
            }
            Field::ZoneHours | Field::ZoneMinutes => return self.zone(of),
            Field::Era | Field::EraWithPeriods | Field::Half | Field::HalfWithPeriods => {
                return self.half_or_era(of);
            }
            Field::MonthName
            | Field::MonthAbbreviation
            | Field::RomanMonth
            | Field::DayName
            | Field::DayAbbreviation => return self.name(of),
            Field::Year(_) | Field::IsoYear(_) => self.year(of)?,
            Field::YearWithComma => self.year_with_comma(of)?,
            Field::Fraction(_) => self.fraction(of)?,
            _ => self.number(of)?,
        }
        if of.is_ordinal {
            self.skip();
            self.skip();
        }
        Ok(())
    }

    /// Reads a field whose digits are its value, such as a month or a minute.
    fn number(&mut self, of: &FieldNode) -> Result<()> {
        let width = match of.field {
            Field::Hour12 | Field::Hour24 => 2,
            Field::IsoDayOfYear => 3,
            Field::IsoDayOfWeek => 1,
            _ => of.name.len(),
        };
        let (value, _) = self.integer(of, width)?;
        let parts = &mut self.parts;
        parts.has_halves |= of.field == Field::Hour12;
        let slot = match of.field {
            Field::Hour12 | Field::Hour24 => &mut parts.hour,
            Field::Minute => &mut parts.minute,
            Field::Second => &mut parts.second,
            Field::SecondOfDay => &mut parts.second_of_day,
            Field::Month => &mut parts.month,
            Field::DayOfMonth => &mut parts.day,
            Field::DayOfYear | Field::IsoDayOfYear => &mut parts.day_of_year,
            Field::DayOfWeek | Field::IsoDayOfWeek => &mut parts.day_of_week,
            Field::Week | Field::IsoWeek => &mut parts.week,
            Field::WeekOfMonth => &mut parts.week_of_month,
            Field::Century => &mut parts.century,
            Field::JulianDay => &mut parts.julian_day,
            // A quarter denotes no day.
            _ => return Ok(()),
        };
        set(slot, value, &of.name)?;
        if of.field == Field::IsoDayOfWeek {
            *slot = if *slot + 1 > 7 { 1 } else { *slot + 1 };
        }
        Ok(())
    }

    fn year(&mut self, of: &FieldNode) -> Result<()> {
        let (Field::Year(digits) | Field::IsoYear(digits)) = of.field else { return Ok(()) };
        let (value, length) = self.integer(of, of.name.len())?;
        set(&mut self.parts.year, value, &of.name)?;
        if digits < 4 && length < 4 {
            self.parts.year = near_2020(value);
        }
        self.parts.year_digits = digits;
        Ok(())
    }

    fn year_with_comma(&mut self, of: &FieldNode) -> Result<()> {
        let malformed = || exec_err!("invalid input text for {:?}: {:?}", of.name, self.rest());
        let Some((thousands, used)) = number_at(self.rest().as_bytes()) else { return malformed() };
        let Some(behind) = self.rest().get(used..).and_then(|rest| rest.strip_prefix(',')) else {
            return malformed();
        };
        let behind = behind.as_bytes();
        let Some((years, more)) = number_at(&behind[..behind.len().min(3)]) else {
            return malformed();
        };
        self.at += used + 1 + more;
        self.parts.year_digits = 4;
        set(&mut self.parts.year, years.saturating_add(thousands.saturating_mul(1_000)), &of.name)
    }

    fn fraction(&mut self, of: &FieldNode) -> Result<()> {
        let Field::Fraction(digits) = of.field else { return Ok(()) };
        let (value, length) = self.integer(of, digits.into())?;
        let scaled = |digits: usize| {
            let missing = u32::try_from(digits.saturating_sub(length.max(1))).unwrap_or(0);
            value.saturating_mul(10_i64.pow(missing))
        };
        if of.name.eq_ignore_ascii_case("MS") {
            set(&mut self.parts.millisecond, value, &of.name)?;
            self.parts.millisecond = scaled(3);
            return Ok(());
        }
        if !of.name.eq_ignore_ascii_case("US") {
            self.parts.fraction_digits = digits;
        }
        set(&mut self.parts.microsecond, value, &of.name)?;
        self.parts.microsecond = scaled(6);
        Ok(())
    }

    fn zone(&mut self, of: &FieldNode) -> Result<()> {
        if of.field == Field::ZoneMinutes {
            let (minutes, _) = self.integer(of, 2)?;
            if self.parts.zone_sign == 0 {
                self.parts.zone_sign = 1;
            }
            return set(&mut self.parts.zone_minutes, minutes, &of.name);
        }
        let before = self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at));
        self.parts.zone_sign = match self.peek() {
            Some(sign @ ('+' | '-' | ' ')) => {
                self.at += 1;
                if sign == '-' { -1 } else { 1 }
            }
            // The sign was skipped as a separator.
            _ if self.skipped > 0 && before == Some(&b'-') => -1,
            _ => 1,
        };
        let (hours, _) = self.integer(of, 2)?;
        set(&mut self.parts.zone_hours, hours, &of.name)
    }

    fn half_or_era(&mut self, of: &FieldNode) -> Result<()> {
        let words = match of.field {
            Field::Half => ["AM", "PM"],
            Field::HalfWithPeriods => ["A.M.", "P.M."],
            Field::Era => ["AD", "BC"],
            _ => ["A.D.", "B.C."],
        };
        let is_second = self.word(of, &words)?;
        match of.field {
            Field::Half | Field::HalfWithPeriods => {
                self.parts.has_halves = true;
                set(&mut self.parts.is_pm, is_second, &of.name)
            }
            _ => set(&mut self.parts.is_bc, is_second, &of.name),
        }
    }

    fn name(&mut self, of: &FieldNode) -> Result<()> {
        let short = |names: &[&'static str]| names.iter().map(|name| &name[..3]).collect();
        let names: Vec<&'static str> = match of.field {
            Field::MonthName => MONTHS.to_vec(),
            Field::MonthAbbreviation => short(&MONTHS),
            Field::DayName => DAYS.to_vec(),
            Field::DayAbbreviation => short(&DAYS),
            // Longer numerals precede those that they begin with.
            _ => ROMAN_MONTHS.iter().rev().copied().collect(),
        };
        let place = self.word(of, &names)?;
        let parts = &mut self.parts;
        match of.field {
            Field::DayName | Field::DayAbbreviation => {
                set(&mut parts.day_of_week, place, &of.name)?;
                parts.day_of_week += 1;
                Ok(())
            }
            Field::RomanMonth => set(&mut parts.month, 12 - place, &of.name),
            _ => set(&mut parts.month, place + 1, &of.name),
        }
    }

    /// Reads one of some words, of which the first fits; returns its place.
    fn word(&mut self, of: &FieldNode, words: &[&str]) -> Result<i64> {
        let rest = self.rest();
        let fits = |word: &&str| {
            rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
        };
        let Some(place) = words.iter().position(fits) else {
            let found = rest.split(is_blank).next().unwrap_or_default();
            return exec_err!(
                "invalid value {found:?} for {:?}: it is none of {}",
                of.name,
                words.join(", ")
            );
        };
        self.at += words.get(place).map_or(0, |word| word.len());
        Ok(i64::try_from(place).unwrap_or(0))
    }

    /// Reads an integer of a number of characters, or of any if the field is open; returns the
    /// characters that were read too.
    fn integer(&mut self, of: &FieldNode, width: usize) -> Result<(i64, usize)> {
        let begin = self.at;
        let bytes = self.text.as_bytes();
        let value = if of.is_open {
            let (value, used) = number_at(bytes.get(begin..).unwrap_or_default()).unwrap_or((0, 0));
            self.at += used;
            value
        } else {
            while bytes.get(self.at).is_some_and(|&byte| is_blank(byte.into())) {
                self.at += 1;
            }
            let rest = bytes.get(self.at..).unwrap_or_default();
            let Some(field) = rest.get(..width) else {
                return exec_err!(
                    "the text is too short for the field {:?}, which takes {width} characters: \
                     {} remain; if its fields have no fixed widths, precede it by FM",
                    of.name,
                    rest.len()
                );
            };
            let (value, used) = number_at(field).unwrap_or((0, 0));
            if 0 < used && used < width {
                return self.invalid(of, width);
            }
            self.at += used;
            value
        };
        if self.at == begin {
            return self.invalid(of, width);
        }
        if i32::try_from(value).is_err() {
            return exec_err!("the value for {:?} in the text is out of range", of.name);
        }
        Ok((value, self.at - begin))
    }

    fn invalid<T>(&self, of: &FieldNode, width: usize) -> Result<T> {
        let found: String = self.rest().chars().take(width).collect();
        exec_err!("invalid value {found:?} for {:?}: it takes an integer", of.name)
    }
}

/// The integer that a text begins with behind blanks, and the bytes that it takes.
fn number_at(text: &[u8]) -> Option<(i64, usize)> {
    let blanks = text.iter().take_while(|&&byte| is_blank(byte.into())).count();
    let unsigned = text.get(blanks..)?;
    let sign = usize::from(matches!(unsigned.first(), Some(b'+' | b'-')));
    let digits = unsigned.get(sign..)?;
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let digits = digits.get(..count)?.iter();
    let value = digits.fold(0_i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    let value = if unsigned.first() == Some(&b'-') { -value } else { value };
    Some((value, blanks + sign + count))
}

/// Sets a field that has no other value yet.
fn set(slot: &mut i64, value: i64, name: &str) -> Result<()> {
    if *slot != 0 && *slot != value {
        return exec_err!("conflicting values for {name:?}: {} and {value}", *slot);
    }
    *slot = value;
    Ok(())
}

/// The full year of a year of less than four digits: the year nearest to 2020 that ends in them.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}

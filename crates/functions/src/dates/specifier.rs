//! Formats of `strftime` and `strptime`.

use datafusion::common::{Result, exec_err};

/// A field of a format, or a text between fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Specifier {
    Literal(String),
    ShortDayName,
    DayName,
    /// The day of the week from Sunday, 0.
    DayOfWeek,
    /// The day of the week from Monday, 1.
    IsoDayOfWeek,
    ShortMonthName,
    MonthName,
    HalfOfDay,
    /// The offset from UTC.
    Offset,
    ZoneName,
    /// A number, its maximum number of digits, and whether it is padded to that number.
    Number(Number, usize, bool),
}

/// A number of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Day,
    Month,
    Year,
    YearOfCentury,
    IsoYear,
    IsoWeek,
    WeekFromSunday,
    WeekFromMonday,
    DayOfYear,
    Hour,
    HalfHour,
    Minute,
    Second,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

/// Reads a format, such as `%Y-%m-%d %H:%M:%S`.
///
/// # Errors
/// If it is empty, ends in a percent sign, or has an unknown field.
pub(super) fn parsed(format: &str) -> Result<Vec<Specifier>> {
    if format.is_empty() {
        return exec_err!("a format of strftime is not empty");
    }
    let mut specifiers = Vec::new();
    let mut literal = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            literal.push(letter);
            continue;
        }
        let (is_padded, field) = match letters.next() {
            Some('-') => (false, letters.next()),
            field => (true, field),
        };
        let Some(field) = field else {
            return exec_err!("the format {format:?} ends in a percent sign; write %%");
        };
        if field == '%' {
            literal.push('%');
            continue;
        }
        let Some(found) = field_of(field, is_padded) else {
            return exec_err!("the format {format:?} has an unknown field %{field}");
        };
        if !literal.is_empty() {
            specifiers.push(Specifier::Literal(std::mem::take(&mut literal)));
        }
        specifiers.extend(found);
    }
    if !literal.is_empty() {
        specifiers.push(Specifier::Literal(literal));
    }
    Ok(specifiers)
}

fn field_of(letter: char, is_padded: bool) -> Option<Vec<Specifier>> {
    let number = |number, digits| Some(vec![Specifier::Number(number, digits, is_padded)]);
    match letter {
        'd' => number(Number::Day, 2),
        'm' => number(Number::Month, 2),
        'Y' => number(Number::Year, 4),
        'y' => number(Number::YearOfCentury, 2),
        'G' => number(Number::IsoYear, 4),
        'V' => number(Number::IsoWeek, 2),
        'U' => number(Number::WeekFromSunday, 2),
        'W' => number(Number::WeekFromMonday, 2),
        'j' => number(Number::DayOfYear, 3),
        'H' => number(Number::Hour, 2),
        'I' => number(Number::HalfHour, 2),
        'M' => number(Number::Minute, 2),
        'S' => number(Number::Second, 2),
        'g' => number(Number::Milliseconds, 3),
        'f' => number(Number::Microseconds, 6),
        'n' => number(Number::Nanoseconds, 9),
        'a' => Some(vec![Specifier::ShortDayName]),
        'A' => Some(vec![Specifier::DayName]),
        'w' => Some(vec![Specifier::DayOfWeek]),
        'u' => Some(vec![Specifier::IsoDayOfWeek]),
        'b' | 'h' => Some(vec![Specifier::ShortMonthName]),
        'B' => Some(vec![Specifier::MonthName]),
        'p' => Some(vec![Specifier::HalfOfDay]),
        'z' => Some(vec![Specifier::Offset]),
        'Z' => Some(vec![Specifier::ZoneName]),
        'c' => parsed("%Y-%m-%d %H:%M:%S").ok(),
        'x' | 'F' => parsed("%Y-%m-%d").ok(),
        'X' | 'T' => parsed("%H:%M:%S").ok(),
        'D' => parsed("%m/%d/%y").ok(),
        'R' => parsed("%H:%M").ok(),
        _ => None,
    }
}

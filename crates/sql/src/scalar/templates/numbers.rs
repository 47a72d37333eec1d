//! Templates of `to_char` and `to_number` for numbers, as in PostgreSQL.

mod input;
mod layout;
mod writer;

use datafusion::common::Result;

pub(super) use input::Digits;
use layout::{Item, Keyword, Layout, keyword};
use writer::Writer;

/// Decimal digits that a double and a single precision number represent exactly.
const DOUBLE_DIGITS: usize = 15;
const SINGLE_DIGITS: usize = 6;
/// Width of a Roman number without `FM`, and of the # for a number without a Roman one.
const ROMAN_WIDTH: usize = 15;

/// A parsed template for numbers.
#[derive(Debug, Default)]
pub(super) struct NumberTemplate {
    items: Vec<Item>,
    layout: Layout,
}

/// A number to be formatted.
#[derive(Debug)]
pub(super) enum Number {
    /// An integer or a decimal, in its usual text.
    Exact(String),
    Single(f32),
    Double(f64),
}

impl NumberTemplate {
    /// # Errors
    /// If keywords contradict each other.
    pub(super) fn parsed(text: &str) -> Result<Self> {
        let mut template = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((keyword, behind)) = keyword(rest) {
                template.layout.add(keyword)?;
                template.items.push(Item::Keyword(keyword));
                rest = behind;
            } else if let Some(quoted) = rest.strip_prefix('"') {
                let items = &mut template.items;
                rest = super::times::quotation(quoted, |c| items.push(Item::Literal(c)));
            } else {
                rest = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
                let mut characters = rest.chars();
                template.items.extend(characters.next().map(Item::Literal));
                rest = characters.as_str();
            }
        }
        Ok(template)
    }

    /// The number of digits behind the point that the template reads.
    pub(super) fn digits_behind(&self) -> usize {
        self.layout.behind + self.layout.shift.unwrap_or(0)
    }

    /// Reads the digits of a text.
    ///
    /// # Errors
    /// If the template cannot read, or the text has too many digits.
    pub(super) fn read(&self, text: &str) -> Result<Digits> {
        input::digits(&self.items, self.layout, text)
    }

    /// Formats a number by the template.
    pub(super) fn write(&self, number: &Number, text: &mut String) {
        let mut layout = self.layout;
        if layout.roman {
            return self.write_roman(&roman(number), text);
        }
        if layout.exponent {
            return text.push_str(&layout.scientific(number));
        }
        let shift = layout.shift.unwrap_or(0);
        layout.before += shift;
        let digits = match number {
            Number::Exact(digits) => rounded(digits, shift, layout.behind),
            Number::Single(value) => layout.rounded_float(f64::from(*value), SINGLE_DIGITS),
            Number::Double(value) => layout.rounded_float(*value, DOUBLE_DIGITS),
        };
        let (negative, digits) = match digits.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, digits.as_str()),
        };
        let before = digits.find('.').unwrap_or(digits.len());
        if before > layout.before {
            // Too large for the template.
            let hashes = |count: usize| "#".repeat(count);
            let digits = format!("{}.{}", hashes(layout.before), hashes(layout.behind));
            return Writer::new(layout, &digits, 0, negative).write(&self.items, text);
        }
        let spaces = layout.before - before;
        Writer::new(layout, digits, spaces, negative).write(&self.items, text);
    }

    fn write_roman(&self, roman: &str, text: &mut String) {
        for item in &self.items {
            match item {
                Item::Literal(literal) => text.push(*literal),
                Item::Keyword(keyword @ (Keyword::Roman | Keyword::RomanLower)) => {
                    let lower = roman.to_lowercase();
                    let roman = if *keyword == Keyword::Roman { roman } else { &lower };
                    let width = if self.layout.unpadded { 0 } else { ROMAN_WIDTH };
                    text.push_str(&format!("{roman:>width$}"));
                }
                Item::Keyword(_) => {}
            }
        }
    }
}

impl Layout {
    /// The digits of a float; reduces the digits after the decimal point to its precision.
    fn rounded_float(&mut self, value: f64, digits: usize) -> String {
        let value = value * 10_f64.powi(self.shift.unwrap_or(0).try_into().unwrap_or(i32::MAX));
        let before = named(value.abs(), 0).len();
        if before >= digits {
            self.behind = 0;
        } else if before + self.behind > digits {
            self.behind = digits - before;
        }
        named(value, self.behind)
    }

    /// Formats as a digit, a decimal point, digits and an exponent; a space replaces the sign of a
    /// positive number.
    fn scientific(&self, number: &Number) -> String {
        let digits = match number {
            Number::Exact(digits) => scientific_of(digits, self.behind),
            Number::Single(value) if value.is_finite() => {
                scientific_float(f64::from(*value), self.behind)
            }
            Number::Double(value) if value.is_finite() => scientific_float(*value, self.behind),
            _ => {
                let hashes = |count: usize| "#".repeat(count);
                return format!(" {}.{}", hashes(self.before), hashes(self.behind + 4));
            }
        };
        if digits.starts_with('-') { digits } else { format!(" {digits}") }
    }
}

/// Formats a float with `behind` digits after the decimal point; NaN and infinities as in
/// PostgreSQL.
fn named(value: f64, behind: usize) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned()
    } else {
        format!("{value:.behind$}")
    }
}

/// The digits of an exact number, shifted left by `shift` places, with `behind` digits after the
/// decimal point; rounds half away from zero.
fn rounded(number: &str, shift: usize, behind: usize) -> String {
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let point = whole.len() + shift;
    digits.resize(digits.len().max(point + behind + 1), b'0');
    let up = digits[point + behind] >= b'5';
    digits.truncate(point + behind);
    if up {
        increment(&mut digits);
    }
    let point = digits.len() - behind;
    let first = digits[..point].iter().position(|digit| *digit != b'0');
    let first = first.unwrap_or(point.saturating_sub(1));
    let sign = if digits.iter().all(|digit| *digit == b'0') { "" } else { sign };
    let digits = String::from_utf8_lossy(&digits);
    let whole = if point == 0 { "0" } else { &digits[first..point] };
    match behind {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{}", &digits[point..]),
    }
}

/// Adds one in the last place.
fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

fn scientific_of(number: &str, behind: usize) -> String {
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let first = all.iter().position(|digit| *digit != b'0');
    let mut exponent = first.map_or(0, |first| whole.len() as i64 - 1 - first as i64);
    let mut digits = all[first.unwrap_or(all.len())..].to_vec();
    digits.resize(digits.len().max(behind + 2), b'0');
    let up = digits[behind + 1] >= b'5';
    digits.truncate(behind + 1);
    if up {
        increment(&mut digits);
        if digits.len() > behind + 1 {
            digits.truncate(behind + 1);
            exponent += 1;
        }
    }
    let digits = String::from_utf8_lossy(&digits);
    let point = if behind > 0 { "." } else { "" };
    format!("{sign}{}{point}{}{}", &digits[..1], &digits[1..], exponent_of(exponent))
}

fn scientific_float(value: f64, behind: usize) -> String {
    let text = format!("{value:.behind$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            format!("{digits}{}", exponent_of(exponent.parse().unwrap_or(0)))
        }
        None => text,
    }
}

fn exponent_of(exponent: i64) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.unsigned_abs())
}

/// A number from 1 to 3999 in Roman numerals, or a row of # for any other.
fn roman(number: &Number) -> String {
    const NUMERALS: [(i64, &str); 13] = [
        (1_000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let digits = match number {
        Number::Exact(digits) => rounded(digits, 0, 0),
        Number::Single(value) => named(f64::from(*value), 0),
        Number::Double(value) => named(*value, 0),
    };
    // Infinities and NaN do not parse, and are out of range as well.
    let whole = digits.parse().unwrap_or(0);
    if !(1..4_000).contains(&whole) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let mut rest = whole;
    let mut roman = String::new();
    for (value, numeral) in NUMERALS {
        while rest >= value {
            roman.push_str(numeral);
            rest -= value;
        }
    }
    roman
}

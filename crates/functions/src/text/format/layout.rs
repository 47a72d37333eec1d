//! Parts of a template, and the layout of a value.

use datafusion::common::{Result, exec_err};

/// Maximum width and precision of a field.
const WIDTH_MAX: usize = 10_000;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::text) enum Piece {
    Literal(String),
    Field(Field),
}

/// The place of an argument in a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::text) struct Field {
    /// The number of the argument, from 0.
    pub(super) argument: usize,
    /// The number of the argument that is the width.
    pub(super) width_argument: Option<usize>,
    pub(super) layout: Layout,
    /// The letter of the conversion, such as `d` or `s`.
    pub(super) conversion: Option<char>,
}

/// The layout of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    pub(super) fill: Option<char>,
    pub(super) align: Option<Align>,
    /// The sign before numbers that are not negative.
    pub(super) sign: Option<char>,
    /// True for a prefix such as `0x`.
    pub(super) has_prefix: bool,
    /// True if zeros fill the width between the sign and the digits.
    pub(super) has_zeros: bool,
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
    /// The character between thousands.
    pub(super) separator: Option<char>,
}

/// The side of the width on which a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Center,
    Right,
}

impl Layout {
    /// Pads a number: `digits` are without the sign.
    pub(super) fn number(&self, is_negative: bool, prefix: &str, digits: &str) -> String {
        let sign = if is_negative { Some('-') } else { self.sign };
        let sign = sign.map(String::from).unwrap_or_default();
        let digits = match self.separator {
            Some(separator) => separated(digits, separator),
            None => digits.to_owned(),
        };
        let prefix = if self.has_prefix { prefix } else { "" };
        let length = sign.len() + prefix.len() + digits.chars().count();
        if self.has_zeros && self.align.is_none() {
            let zeros = "0".repeat(self.width.saturating_sub(length));
            return format!("{sign}{prefix}{zeros}{digits}");
        }
        self.padded(&format!("{sign}{prefix}{digits}"), Align::Right)
    }

    /// Pads a text, whose precision is its greatest length.
    pub(super) fn text(&self, text: &str, align: Align) -> String {
        match self.precision.and_then(|precision| text.char_indices().nth(precision)) {
            Some((end, _)) => self.padded(&text[..end], align),
            None => self.padded(text, align),
        }
    }

    fn padded(&self, text: &str, align: Align) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let left = match self.align.unwrap_or(align) {
            Align::Left => 0,
            Align::Center => missing / 2,
            Align::Right => missing,
        };
        let fill = |count: usize| self.fill.unwrap_or(' ').to_string().repeat(count);
        format!("{}{text}{}", fill(left), fill(missing - left))
    }
}

/// Digits with a separator between thousands.
fn separated(digits: &str, separator: char) -> String {
    let whole = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
    let mut text = String::with_capacity(digits.len() + whole / 3);
    for (at, digit) in digits[..whole].char_indices() {
        if at > 0 && (whole - at).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text + &digits[whole..]
}

/// Reads a number that a template begins with, a width or a precision; returns the rest.
///
/// # Errors
/// If the number is too large.
pub(super) fn number(text: &str) -> Result<(Option<usize>, &str)> {
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Ok((None, rest));
    }
    Ok((Some(bounded(digits.parse().ok())?), rest))
}

/// A width or a precision.
///
/// # Errors
/// If it is too large.
pub(super) fn bounded(width: Option<usize>) -> Result<usize> {
    match width.filter(|width| *width <= WIDTH_MAX) {
        Some(width) => Ok(width),
        None => exec_err!("a width or precision of a template is at most {WIDTH_MAX}"),
    }
}

/// Reads a template whose fields begin with a percent sign, each by `field`: from the text behind
/// the sign and the number of the next argument, it returns the field and the rest.
///
/// # Errors
/// Those of `field`.
pub(super) fn pieces<'a>(
    template: &'a str,
    field: impl Fn(&'a str, &mut usize) -> Result<(Field, &'a str)>,
) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        literal.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            literal.push('%');
            rest = after;
            continue;
        }
        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        let (field, after) = field(rest, &mut next)?;
        pieces.push(Piece::Field(field));
        rest = after;
    }
    literal.push_str(rest);
    pieces.push(Piece::Literal(literal));
    Ok(pieces)
}

//! Digits of a text at the places of a number template.

use datafusion::common::{Result, exec_err};

use super::layout::{Anchor, Item, Keyword, Layout};

/// The digits that a template finds in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Digits {
    is_negative: bool,
    whole: String,
    fraction: String,
    /// Number of decimal places by which `V` in the template divides the number.
    shift: usize,
}

impl Digits {
    /// True if there is any digit.
    pub(in super::super) fn has_digits(&self) -> bool {
        !(self.whole.is_empty() && self.fraction.is_empty())
    }

    /// The number of digits behind the point.
    pub(in super::super) fn behind(&self) -> usize {
        self.fraction.len() + self.shift
    }

    /// The number times 10 to the power `scale`, rounded half away from zero; `None` if that has
    /// more than 38 digits.
    pub(in super::super) fn at_scale(&self, scale: usize) -> Option<i128> {
        let digits = format!("{}{}", self.whole, self.fraction);
        let behind = self.behind();
        let mut number: i128 = match digits.trim_start_matches('0') {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        if behind <= scale {
            let power = u32::try_from(scale - behind).ok()?;
            number = number.checked_mul(10_i128.checked_pow(power)?)?;
        } else {
            let power = u32::try_from(behind - scale).ok()?;
            let unit = 10_i128.checked_pow(power)?;
            number = number.checked_add(unit / 2)? / unit;
        }
        let is_short = number < 10_i128.pow(38);
        is_short.then_some(if self.is_negative { -number } else { number })
    }
}

/// Reads the digits of a text.
///
/// # Errors
/// If the template has a keyword that only formats, or the text has too many digits before the
/// point.
pub(super) fn digits(items: &[Item], layout: Layout, text: &str) -> Result<Digits> {
    let unsupported = [(layout.roman, "RN"), (layout.exponent, "EEEE")];
    if let Some((_, keyword)) = unsupported.into_iter().find(|(is_there, _)| *is_there) {
        return exec_err!("{keyword:?} is not supported for input: to_number reads decimal digits");
    }
    let mut input = Input { text: text.as_bytes(), at: 0, layout, sign: None, point: None };
    let mut digits = String::new();
    for item in items {
        let Some(next) = input.peek() else { break };
        match item {
            Item::Literal(_) => {
                let rest = text.get(input.at..).and_then(|rest| rest.chars().next());
                input.at += rest.map_or(1, char::len_utf8);
            }
            Item::Keyword(keyword) => input.read(*keyword, next, &mut digits),
        }
    }
    let (whole, fraction) = digits.split_at(input.point.unwrap_or(digits.len()));
    let shift = layout.shift.unwrap_or(0);
    if whole.trim_start_matches('0').len() > layout.before + shift {
        return exec_err!(
            "numeric field overflow: {text:?} has more digits than the template has before the \
             point"
        );
    }
    Ok(Digits {
        is_negative: input.sign == Some(true),
        whole: whole.to_owned(),
        fraction: fraction.to_owned(),
        shift,
    })
}

/// A position in a text.
struct Input<'a> {
    text: &'a [u8],
    at: usize,
    layout: Layout,
    /// True for a minus, false for a plus.
    sign: Option<bool>,
    /// The number of digits before the point, once it is read.
    point: Option<usize>,
}

impl Input<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn read(&mut self, keyword: Keyword, next: u8, digits: &mut String) {
        let sign = sign_of(next);
        match keyword {
            Keyword::Zero | Keyword::Nine | Keyword::Point => {
                self.place(keyword != Keyword::Point, digits);
                self.at += 1;
            }
            Keyword::Comma => self.at += usize::from(next == b',' && !self.layout.unpadded),
            Keyword::Currency => self.skip(1),
            Keyword::Ordinal | Keyword::OrdinalLower if !self.layout.point => self.skip(2),
            Keyword::Minus if sign == Some(true) => self.take_sign(sign),
            Keyword::Plus if sign == Some(false) => self.take_sign(sign),
            Keyword::AnySign if sign.is_some() => self.take_sign(sign),
            Keyword::Minus | Keyword::Plus | Keyword::AnySign => self.skip(1),
            _ => {}
        }
    }

    fn take_sign(&mut self, sign: Option<bool>) {
        self.sign = sign;
        self.at += 1;
    }

    /// Skips characters that are no part of a number.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            let Some(next) = self.peek() else { return };
            if next.is_ascii_digit() || matches!(next, b'.' | b',' | b'+' | b'-') {
                return;
            }
            self.at += 1;
            // The further bytes of a character.
            while self.peek().is_some_and(|byte| byte & 0xc0 == 0x80) {
                self.at += 1;
            }
        }
    }

    /// Reads the digit or the decimal point of one place of the template. If `takes_sign`, also
    /// reads a sign before the first or after the last digit.
    fn place(&mut self, takes_sign: bool, digits: &mut String) {
        if self.peek() == Some(b' ') {
            self.at += 1;
        }
        if self.sign.is_none() && takes_sign && digits.is_empty() {
            let sign = match self.peek() {
                Some(b'<') if self.layout.bracket && self.layout.anchor != Anchor::Before => {
                    Some(true)
                }
                next => next.and_then(sign_of),
            };
            if sign.is_some() {
                self.take_sign(sign);
            }
        }
        let Some(next) = self.peek() else { return };
        let mut is_read = true;
        if next.is_ascii_digit() {
            if self.point.is_some_and(|point| digits.len() - point == self.layout.behind) {
                return;
            }
            digits.push(next.into());
        } else if next == b'.' && self.layout.point && self.point.is_none() {
            self.point = Some(digits.len());
        } else {
            is_read = false;
        }
        if self.sign.is_some() || digits.is_empty() {
            return;
        }
        let is_anchored = self.layout.anchor != Anchor::None;
        if is_anchored && is_read {
            let behind = self.text.get(self.at + 1).copied().and_then(sign_of);
            if behind.is_some() {
                self.take_sign(behind);
            }
        } else if !is_read && !is_anchored && !self.layout.plus && !self.layout.minus {
            self.sign = sign_of(next);
        }
    }
}

fn sign_of(byte: u8) -> Option<bool> {
    match byte {
        b'-' => Some(true),
        b'+' => Some(false),
        _ => None,
    }
}

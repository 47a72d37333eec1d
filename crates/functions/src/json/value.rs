//! JSON values as trees, and PostgreSQL's normal form of them.
//!
//! The normal form (`jsonb`) has each member once, shorter names first, numbers without exponents,
//! and blanks behind commas and colons.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use datafusion::common::{Result, exec_err};

use super::text::{Json, Kind};

/// Maximum number of digits of a number that the normal form writes without its exponent.
const DIGITS_MAX: usize = 400;

/// Maximum length of a text that a function returns.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 28;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number, a boolean or null, as it is written.
    Word(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Self>),
    Object(Vec<(Cow<'a, str>, Self)>),
}

impl<'a> From<Json<'a>> for Value<'a> {
    fn from(json: Json<'a>) -> Self {
        match json.kind() {
            Kind::Object => {
                let members = json.members();
                Self::Object(members.map(|(key, value)| (key.text(), value.into())).collect())
            }
            Kind::Array => Self::Array(json.elements().map(Self::from).collect()),
            Kind::Text => Self::Text(json.plain().unwrap_or_default()),
            _ => Self::Word(json.text()),
        }
    }
}

impl<'a> Value<'a> {
    /// The value with the members of each object sorted, of which the last of each name remains.
    pub(crate) fn normalized(self) -> Self {
        match self {
            Self::Array(elements) => {
                Self::Array(elements.into_iter().map(Self::normalized).collect())
            }
            Self::Object(members) => {
                let members = members.into_iter().map(|(key, value)| (key, value.normalized()));
                let mut members: Vec<_> = members.collect();
                members.sort_by(|left, right| by_name(&left.0, &right.0));
                // Of equal names, keeps the last.
                members.reverse();
                members.dedup_by(|next, kept| next.0 == kept.0);
                members.reverse();
                Self::Object(members)
            }
            other => other,
        }
    }

    /// The value without members that are null.
    pub(crate) fn without_nulls(self) -> Self {
        match self {
            Self::Array(elements) => {
                Self::Array(elements.into_iter().map(Self::without_nulls).collect())
            }
            Self::Object(members) => {
                let members = members.into_iter().filter(|(_, value)| !value.is_null());
                Self::Object(members.map(|(key, value)| (key, value.without_nulls())).collect())
            }
            other => other,
        }
    }

    /// The value changed by a merge patch (RFC 7396).
    pub(crate) fn merged(self, patch: Self) -> Self {
        let Self::Object(changes) = patch else { return patch };
        let members = if let Self::Object(members) = self { members } else { Vec::new() };
        let mut members: Vec<_> = members.into_iter().map(Some).collect();
        let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
        for (place, member) in members.iter().flatten().enumerate() {
            places.insert(member.0.clone(), place);
        }
        for (key, change) in changes {
            let place = places.get(&key).copied();
            let old = place.and_then(|place| members.get_mut(place)).and_then(Option::take);
            let old = old.map_or(Self::Word("null"), |(_, value)| value);
            let new = (!change.is_null()).then(|| (key.clone(), old.merged(change)));
            match place.and_then(|place| members.get_mut(place)) {
                Some(member) => *member = new,
                None => {
                    places.insert(key, members.len());
                    members.push(new);
                }
            }
        }
        Self::Object(members.into_iter().flatten().collect())
    }

    /// True if the normalized value contains another one, as PostgreSQL's `@>`.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(elements), Self::Word(_) | Self::Text(_)) => {
                elements.iter().any(|element| element.equals(other))
            }
            _ => self.holds(other),
        }
    }

    /// True if this value, or one at any depth within it, contains the other.
    pub(crate) fn contains_deep(&self, other: &Self) -> bool {
        self.contains(other)
            || match self {
                Self::Array(elements) => elements.iter().any(|it| it.contains_deep(other)),
                Self::Object(members) => members.iter().any(|(_, it)| it.contains_deep(other)),
                _ => false,
            }
    }

    fn holds(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(_), Self::Object(wanted)) => wanted
                .iter()
                .all(|(key, value)| self.member(key).is_some_and(|own| own.holds(value))),
            (Self::Array(own), Self::Array(wanted)) => {
                wanted.iter().all(|value| own.iter().any(|own| own.holds(value)))
            }
            _ => self.equals(other),
        }
    }

    /// Equality of values that are not arrays or objects.
    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Word(left), Self::Word(right)) => {
                left == right || amount(left).is_some_and(|left| Some(left) == amount(right))
            }
            (Self::Text(left), Self::Text(right)) => left == right,
            _ => false,
        }
    }

    /// The member of a normalized object.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        let place = members.binary_search_by(|(key, _)| by_name(key, name)).ok()?;
        members.get(place).map(|(_, value)| value)
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Word("null"))
    }

    /// Appends the text of the value without blanks, its numbers as they are.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Word(word) => out.push_str(word),
            Self::Text(text) => quote(text, out),
            Self::Array(elements) => list(out, ['[', ']'], ",", elements, Self::write),
            Self::Object(members) => list(out, ['{', '}'], ",", members, |(key, value), out| {
                quote(key, out);
                out.push(':');
                value.write(out);
            }),
        }
    }

    /// Appends the normal form of a normalized value.
    pub(crate) fn write_normal(&self, out: &mut String) {
        match self {
            Self::Word(word) => out.push_str(&normal_number(word)),
            Self::Text(text) => quote(text, out),
            Self::Array(elements) => list(out, ['[', ']'], ", ", elements, Self::write_normal),
            Self::Object(members) => list(out, ['{', '}'], ", ", members, |(key, value), out| {
                quote(key, out);
                out.push_str(": ");
                value.write_normal(out);
            }),
        }
    }

    /// Appends the value with one member or element a line. PostgreSQL breaks the line within empty
    /// brackets (`breaks_empty`).
    ///
    /// # Errors
    /// If the text is longer than 256 MiB.
    pub(crate) fn write_pretty(
        &self,
        depth: usize,
        breaks_empty: bool,
        out: &mut String,
    ) -> Result<()> {
        if out.len() > TEXT_BYTES_MAX {
            return exec_err!("the indented JSON text is longer than 256 MiB");
        }
        let (brackets, count) = match self {
            Self::Array(elements) => (['[', ']'], elements.len()),
            Self::Object(members) => (['{', '}'], members.len()),
            _ => {
                self.write(out);
                return Ok(());
            }
        };
        out.push(brackets[0]);
        for at in 0..count {
            line(out, depth + 1);
            let value = match self {
                Self::Object(members) => members.get(at).map(|(key, value)| {
                    quote(key, out);
                    out.push_str(": ");
                    value
                }),
                Self::Array(elements) => elements.get(at),
                _ => None,
            };
            value.map_or(Ok(()), |value| value.write_pretty(depth + 1, breaks_empty, out))?;
            if at + 1 < count {
                out.push(',');
            }
        }
        if count > 0 || breaks_empty {
            line(out, depth);
        }
        out.push(brackets[1]);
        Ok(())
    }
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("    ", depth));
}

/// Appends items between brackets.
fn list<T>(
    out: &mut String,
    brackets: [char; 2],
    comma: &str,
    items: &[T],
    write: impl Fn(&T, &mut String),
) {
    out.push(brackets[0]);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(comma);
        }
        write(item, out);
    }
    out.push(brackets[1]);
}

/// The order of members: shorter names first.
fn by_name(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// Appends a text in double quotes.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Parses a number as `0.DIGITS * 10^EXPONENT`: true if negative, the digits without leading and
/// trailing zeros, and the exponent; `None` for other words.
pub(super) fn amount(word: &str) -> Option<(bool, String, i64)> {
    let (is_negative, whole, fraction, exponent) = parts(word)?;
    let digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let significant = digits.trim_start_matches('0');
    let leading = i64::try_from(digits.len() - significant.len()).ok()?;
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    Some((is_negative, significant.to_owned(), point.checked_sub(leading)?))
}

/// Sign, digits before and behind the point, and exponent of a number; `None` for other words.
pub(super) fn parts(word: &str) -> Option<(bool, &str, &str, i64)> {
    let unsigned = word.strip_prefix('-');
    let (is_negative, number) = (unsigned.is_some(), unsigned.unwrap_or(word));
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    Some((is_negative, whole, fraction, exponent.parse().ok()?))
}

/// A number without its exponent, unless that would be very long; other words unchanged.
fn normal_number(word: &str) -> Cow<'_, str> {
    let Some((is_negative, whole, fraction, exponent)) = parts(word) else {
        return Cow::Borrowed(word);
    };
    let is_zero = !format!("{whole}{fraction}").contains(|c| c != '0');
    let Ok(shift) = i32::try_from(exponent) else { return Cow::Borrowed(word) };
    let size = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
    let has_exponent = word.contains(['e', 'E']);
    let is_plain = !(has_exponent || is_zero && is_negative);
    if is_plain || size > DIGITS_MAX {
        return Cow::Borrowed(word);
    }
    let zeros = "0".repeat(size);
    let (whole, fraction) = if shift >= 0 {
        let fraction = format!("{fraction}{zeros}");
        let (moved, rest) = fraction.split_at_checked(size).unwrap_or((&fraction, ""));
        // The point moves no further than the fraction is long.
        let rest = rest.get(..rest.len().saturating_sub(size)).unwrap_or("");
        (format!("{whole}{moved}"), rest.to_owned())
    } else {
        let whole = format!("{zeros}{whole}");
        let (whole, moved) = whole.split_at_checked(whole.len() - size).unwrap_or((&whole, ""));
        (whole.to_owned(), format!("{moved}{fraction}"))
    };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if is_negative && !is_zero { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Cow::Owned(format!("{sign}{whole}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Json::parse(text).expect(text).into()
    }

    fn normal(text: &str) -> String {
        let mut out = String::new();
        value(text).normalized().write_normal(&mut out);
        out
    }

    /// The normal forms of PostgreSQL 15.
    #[test]
    fn the_normal_form_is_that_of_postgresql() {
        let cases = [
            (r#"{"b": 1, "aa":2, "a":3, "b":4}"#, r#"{"a": 3, "b": 4, "aa": 2}"#),
            ("[1.0, 1e2, 1.50e1, -0, 1E-3]", "[1.0, 100, 15.0, 0, 0.001]"),
            ("[-1.25e1, 12e-1, 0e5, 1.5e+0, 100e-2]", "[-12.5, 1.2, 0, 1.5, 1.00]"),
            (r#"{"a":"\u00e9\n\/"}"#, "{\"a\": \"\u{e9}\\n/\"}"),
            ("12345678901234567890.123", "12345678901234567890.123"),
            ("[[], {}, null, true]", "[[], {}, null, true]"),
        ];
        for (text, expected) in cases {
            assert_eq!(normal(text), expected, "{text}");
        }
        assert_eq!(normal("1e100000"), "1e100000");
    }

    /// The answers of PostgreSQL 15 to `@>`.
    #[test]
    fn containment_is_that_of_postgresql() {
        let cases = [
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, true),
            ("[1,2]", "1", true),
            ("[1,[2,3]]", "[[2]]", true),
            (r#"{"a":{"b":1}}"#, r#"{"b":1}"#, false),
            ("1", "1.0", true),
            ("1", "10e-1", true),
            ("10", "1", false),
            ("[]", "[]", true),
            ("[1]", "[1,1]", true),
            ("1", "[1]", false),
            ("[[1]]", "1", false),
        ];
        for (left, right, expected) in cases {
            let (own, other) = (value(left).normalized(), value(right).normalized());
            assert_eq!(own.contains(&other), expected, "{left} @> {right}");
        }
    }
}

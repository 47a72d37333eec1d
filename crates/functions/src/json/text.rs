//! JSON texts: their syntax, and navigation in them without copies.
//!
//! A text is checked as a whole, then navigated by skipping. Numbers keep their digits, and members
//! of objects their order.

use std::borrow::Cow;

use super::escape::{inner, unescape};
pub(crate) use super::scan::Malformed;
use super::scan::check;

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

impl Kind {
    /// PostgreSQL's name of the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Text => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// A value within a checked text, without blanks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// Checks a text.
    ///
    /// # Errors
    /// The first syntax error, or too deep nesting.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Malformed> {
        check(text)?;
        Ok(Self(text.trim_matches(is_blank)))
    }

    /// The text of the value.
    pub(crate) fn text(self) -> &'a str {
        self.0
    }

    pub(crate) fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::Text,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// The members of an object, in their order; nothing for any other value.
    pub(crate) fn members(self) -> impl Iterator<Item = (Key<'a>, Self)> {
        let mut parts = Parts::of(self, Kind::Object);
        std::iter::from_fn(move || Some((Key(parts.next()?.0), parts.next()?)))
    }

    /// The elements of an array; nothing for any other value.
    pub(crate) fn elements(self) -> impl Iterator<Item = Self> {
        Parts::of(self, Kind::Array)
    }

    /// The last member of this name.
    pub(crate) fn member(self, name: &str) -> Option<Self> {
        let found = self.members().filter(|(key, _)| key.is(name)).last();
        found.map(|(_, value)| value)
    }

    /// The element at a position from 0, or from the end if negative.
    pub(crate) fn element(self, position: i64) -> Option<Self> {
        if position >= 0 {
            return self.elements().nth(usize::try_from(position).ok()?);
        }
        let back = usize::try_from(position.unsigned_abs()).ok()?;
        let count = self.elements().count();
        self.elements().nth(count.checked_sub(back)?)
    }

    /// The value as text: a string without its quotes, anything else as it is; `None` for null.
    pub(crate) fn plain(self) -> Option<Cow<'a, str>> {
        match self.kind() {
            Kind::Null => None,
            Kind::Text => Some(unescape(self.0)),
            _ => Some(Cow::Borrowed(self.0)),
        }
    }

    /// The value without blanks between its parts.
    pub(crate) fn minified(self) -> Cow<'a, str> {
        if !self.0.contains(is_blank) {
            return Cow::Borrowed(self.0);
        }
        let (mut out, mut quoted, mut escaped) =
            (String::with_capacity(self.0.len()), false, false);
        for c in self.0.chars() {
            if quoted || !is_blank(c) {
                out.push(c);
            }
            match c {
                '"' if !escaped => quoted = !quoted,
                _ => {}
            }
            escaped = quoted && c == '\\' && !escaped;
        }
        Cow::Owned(out)
    }
}

/// The name of a member, as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a>(&'a str);

impl<'a> Key<'a> {
    pub(crate) fn is(self, name: &str) -> bool {
        match self.0.contains('\\') {
            false => inner(self.0) == name,
            true => self.text() == name,
        }
    }

    pub(crate) fn text(self) -> Cow<'a, str> {
        unescape(self.0)
    }
}

/// The values between the brackets of an object or array: keys and values in turn, or elements.
struct Parts<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parts<'a> {
    fn of(value: Json<'a>, kind: Kind) -> Self {
        match value.kind() == kind {
            true => Self { text: value.0, at: 1 },
            false => Self { text: "", at: 0 },
        }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at)?, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
        if matches!(bytes.get(self.at)?, b'}' | b']') {
            return None;
        }
        let end = end_of_value(bytes, self.at);
        let value = self.text.get(self.at..end)?;
        self.at = end;
        Some(Json(value))
    }
}

/// The end of the value that begins at `at`.
fn end_of_value(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut next) = (0_usize, at);
    while let Some(byte) = bytes.get(next) {
        match byte {
            b'"' => next = end_of_string(bytes, next) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' | b':' if depth == 0 => return next,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        next += 1;
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            return next;
        }
    }
    next
}

/// The end of the string whose opening quote is at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(byte) = bytes.get(next) {
        match byte {
            b'"' => return next + 1,
            b'\\' => next += 2,
            _ => next += 1,
        }
    }
    bytes.len()
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_without_copies() {
        let text = " {\"a\" : [1, {\"b\":\"]}\"} , 12345678901234567890], \"a\\\"\": null } ";
        let json = Json::parse(text).expect("JSON");
        let a = json.member("a").expect("a member");
        assert_eq!(a.text(), "[1, {\"b\":\"]}\"} , 12345678901234567890]");
        assert_eq!(a.element(-1).map(Json::text), Some("12345678901234567890"));
        assert_eq!(a.element(i64::MIN), None);
        assert_eq!(a.element(1).and_then(|b| b.member("b")).map(Json::text), Some("\"]}\""));
        assert_eq!(json.member("a\"").map(Json::text), Some("null"));
        assert_eq!(a.minified(), "[1,{\"b\":\"]}\"},12345678901234567890]");
        let pair = Json::parse("\"\\ud83d\\ude00 \\n \\u00e9\\/\"").expect("JSON");
        assert_eq!(pair.plain().as_deref(), Some("\u{1f600} \n \u{e9}/"));
    }
}

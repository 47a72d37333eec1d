//! Escape sequences in the strings of JSON.

use std::borrow::Cow;

/// The characters between the quotes of a string.
pub(super) fn inner(quoted: &str) -> &str {
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(quoted)
}

/// The text that a quoted string stands for.
pub(super) fn unescape(quoted: &str) -> Cow<'_, str> {
    let inner = inner(quoted);
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        text.push_str(plain);
        rest = escape_sequence(escaped, &mut text);
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Appends the character of the escape sequence at the beginning of `escaped`, and returns the
/// rest.
fn escape_sequence<'a>(escaped: &'a str, text: &mut String) -> &'a str {
    let mut chars = escaped.chars();
    let c = match chars.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => {
            let (c, rest) = unicode(chars.as_str());
            text.push(c);
            return rest;
        }
        Some(other) => other,
        None => return "",
    };
    text.push(c);
    chars.as_str()
}

/// The character of four hexadecimal digits, or of eight in two escapes, and the rest.
fn unicode(escaped: &str) -> (char, &str) {
    let code = |text: &str| text.get(..4).and_then(|code| u32::from_str_radix(code, 16).ok());
    let rest = escaped.get(4..).unwrap_or("");
    let first = code(escaped).unwrap_or(u32::from(char::REPLACEMENT_CHARACTER));
    if let Some(c) = char::from_u32(first) {
        return (c, rest);
    }
    let second = rest.strip_prefix("\\u").and_then(code).unwrap_or(0xdc00);
    let pair = 0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff);
    let c = char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER);
    (c, rest.get(6..).unwrap_or(""))
}

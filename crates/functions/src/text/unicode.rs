//! `unistr`: texts with escapes of Unicode, as in PostgreSQL.

use std::borrow::Cow;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use crate::scalar::{Call, Definition, Kind, Overload, Text};

pub(super) const FUNCTIONS: &[Definition] =
    &[Definition::new("unistr", &[Overload::new(&[Kind::Text], Kind::Text, unistr)])];

fn unistr(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| match text.contains('\\') {
        true => unescaped(text).map(|text| Some(Cow::Owned(text))),
        false => Ok(Some(text.into())),
    })
}

/// A text with its escapes replaced by the characters that they stand for.
fn unescaped(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // The first half of a pair of escapes.
    let mut high: Option<u32> = None;
    while let Some(next) = rest.chars().next() {
        let Some(escape) = rest.strip_prefix('\\') else {
            if high.is_some() {
                return unpaired(text);
            }
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        if let Some(behind) = escape.strip_prefix('\\') {
            if high.is_some() {
                return unpaired(text);
            }
            out.push('\\');
            rest = behind;
            continue;
        }
        let Some((code, behind)) = code(escape) else {
            return exec_err!(
                "invalid Unicode escape in {text:?}: write \\ or \\u and 4 hexadecimal digits, \\+ \
                 and 6, or \\U and 8"
            );
        };
        rest = behind;
        let code = match (high.take(), code) {
            (Some(high), 0xdc00..0xe000) => 0x1_0000 + ((high & 0x3ff) << 10) + (code & 0x3ff),
            (Some(_), _) | (None, 0xdc00..0xe000) => return unpaired(text),
            (None, 0xd800..0xdc00) => {
                high = Some(code);
                continue;
            }
            (None, code) => code,
        };
        match char::from_u32(code).filter(|letter| *letter != '\0') {
            Some(letter) => out.push(letter),
            None => return exec_err!("invalid Unicode code point {code:04X} in {text:?}"),
        }
    }
    match high {
        Some(_) => unpaired(text),
        None => Ok(out),
    }
}

fn unpaired<T>(text: &str) -> Result<T> {
    exec_err!("invalid Unicode surrogate pair in {text:?}")
}

/// The number of an escape behind its backslash, and the text behind it.
fn code(escape: &str) -> Option<(u32, &str)> {
    let (digits, count) = match escape.chars().next()? {
        '+' => (&escape[1..], 6),
        'u' => (&escape[1..], 4),
        'U' => (&escape[1..], 8),
        _ => (escape, 4),
    };
    let (digits, behind) = digits.split_at_checked(count)?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    Some((u32::from_str_radix(digits, 16).ok()?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of PostgreSQL 15.
    #[test]
    fn escapes_stand_for_characters() {
        let of = |text: &str| unescaped(text).ok();
        assert_eq!(of(r"d\0061t\+000061 \u0061").as_deref(), Some("data a"));
        assert_eq!(of(r"\\x\U0001F600").as_deref(), Some("\\x\u{1f600}"));
        assert_eq!(of(r"\D83D\DE00\uD83D\uDE00").as_deref(), Some("\u{1f600}\u{1f600}"));
        for text in [r"\D83D", r"\D83Dx", r"\DE00", r"a\00", r"\u00g0", r"\", r"\0000"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}

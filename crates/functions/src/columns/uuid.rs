//! UUIDs as texts.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Digits of a UUID.
const DIGITS: usize = 32;
/// Characters of a UUID in its canonical form.
const LENGTH: usize = 36;

/// Returns the canonical form of a UUID: lower-case digits with hyphens. As PostgreSQL does, reads
/// upper-case digits, a hyphen or none behind any four digits, and braces around all; `None` for
/// any other text.
pub(super) fn canonical(text: &str) -> Option<Cow<'_, str>> {
    if is_canonical(text.as_bytes()) {
        return Some(Cow::Borrowed(text));
    }
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut number = 0_u128;
    let mut digits = 0;
    let mut may_be_hyphen = false;
    for byte in inner.bytes() {
        if byte == b'-' && may_be_hyphen {
            may_be_hyphen = false;
            continue;
        }
        let digit = char::from(byte).to_digit(16)?;
        if digits == DIGITS {
            return None;
        }
        number = number << 4 | u128::from(digit);
        digits += 1;
        may_be_hyphen = digits % 4 == 0 && digits < DIGITS;
    }
    (digits == DIGITS).then(|| Cow::Owned(written(number)))
}

fn is_canonical(text: &[u8]) -> bool {
    text.len() == LENGTH
        && text.iter().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

fn written(number: u128) -> String {
    let digits = format!("{number:032x}");
    let mut text = String::with_capacity(LENGTH);
    for (place, digit) in digits.chars().enumerate() {
        let hyphen = if [8, 12, 16, 20].contains(&place) { "-" } else { "" };
        // Writing to a text does not fail.
        let _ = write!(text, "{hyphen}{digit}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PostgreSQL 15's documentation lists the accepted forms; the others are errors there.
    #[test]
    fn uuids_are_read_as_in_postgresql() {
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            uuid,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        ] {
            assert_eq!(canonical(text).as_deref(), Some(uuid), "{text}");
        }
        for text in [
            "",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc9-99c0b-4ef8-bb6d-6bb9bd380a11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-",
            "\u{e4}0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}

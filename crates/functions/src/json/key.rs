//! Keys of JSON values: bytes with PostgreSQL's equality and order of `jsonb`.
//!
//! `1` and `1.0` have one key. In ascending order are null, texts, numbers, booleans, arrays and
//! objects; shorter arrays and objects precede longer ones. An array without elements that is the
//! whole value precedes all others.

use super::text::{Json, Malformed};
use super::value::{Value, amount};

const EMPTY: u8 = 0;
const NULL: u8 = 1;
const TEXT: u8 = 2;
const NUMBER: u8 = 3;
const BOOLEAN: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
/// Tag of a number whose exponent has more than 64 bits.
const UNKNOWN: u8 = 4;

/// Returns the key of a JSON text.
///
/// # Errors
/// The first syntax error, or too deep nesting.
pub(crate) fn key(text: &str) -> Result<Vec<u8>, Malformed> {
    let value = Value::from(Json::parse(text)?).normalized();
    let mut key = Vec::new();
    match &value {
        Value::Array(elements) if elements.is_empty() => key.push(EMPTY),
        value => write(value, &mut key),
    }
    Ok(key)
}

fn write(value: &Value<'_>, key: &mut Vec<u8>) {
    match value {
        Value::Word("null") => key.push(NULL),
        Value::Word("false") => key.extend([BOOLEAN, 0]),
        Value::Word("true") => key.extend([BOOLEAN, 1]),
        Value::Word(number) => {
            key.push(NUMBER);
            write_number(number, key);
        }
        Value::Text(text) => {
            key.push(TEXT);
            write_text(text, key);
        }
        Value::Array(elements) => {
            key.push(ARRAY);
            write_count(elements.len(), key);
            elements.iter().for_each(|element| write(element, key));
        }
        Value::Object(members) => {
            key.push(OBJECT);
            write_count(members.len(), key);
            for (name, value) in members {
                write_text(name, key);
                write(value, key);
            }
        }
    }
}

fn write_count(count: usize, key: &mut Vec<u8>) {
    key.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

/// Appends a text and its end, which precedes all characters.
fn write_text(text: &str, key: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            0 => key.extend([0, u8::MAX]),
            byte => key.push(byte),
        }
    }
    key.extend([0, 0]);
}

/// Appends the sign, the power of ten, and the digits, the last two inverted for a negative number.
fn write_number(word: &str, key: &mut Vec<u8>) {
    let Some((is_negative, digits, point)) = amount(word) else {
        key.push(UNKNOWN);
        write_text(word, key);
        return;
    };
    if digits.is_empty() {
        key.push(ZERO);
        return;
    }
    key.push(if is_negative { NEGATIVE } else { POSITIVE });
    let begin = key.len();
    key.extend((point.cast_unsigned() ^ 1 << 63).to_be_bytes());
    key.extend(digits.bytes());
    key.push(0);
    if is_negative {
        key.iter_mut().skip(begin).for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of PostgreSQL 15, without the collation of its texts.
    #[test]
    fn keys_are_in_the_order_of_postgresql() {
        let ordered = [
            "[]",
            "null",
            r#""""#,
            r#""a""#,
            r#""a\u0001""#,
            r#""ab""#,
            "-1e30",
            "-100.5",
            "-2",
            "-0.25",
            "-0.125",
            "0",
            "0.001",
            "0.5",
            "1",
            "1.5",
            "9",
            "10",
            "1e30",
            "false",
            "true",
            "[1]",
            "[[]]",
            "[1, 2]",
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": 2}"#,
            r#"{"aa": 0}"#,
            r#"{"b": 1}"#,
            r#"{"a": 0, "b": 0}"#,
        ];
        let keys = ordered.map(|text| key(text).expect(text));
        for (place, pair) in keys.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "{} < {}", ordered[place], ordered[place + 1]);
        }
    }

    #[test]
    fn equal_values_have_one_key() {
        let equal = [
            ("1", "1.0"),
            ("100", "1e2"),
            ("0", "-0.00"),
            (r#"{"a":1,"b":[1.50]}"#, r#"{"b": [1.5], "a": 1.00}"#),
            (r#""\u0061""#, r#""a""#),
        ];
        for (one, other) in equal {
            assert_eq!(key(one).expect(one), key(other).expect(other), "{one} = {other}");
        }
    }
}

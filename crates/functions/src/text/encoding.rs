//! `encode` and `decode` as in PostgreSQL, and with one argument as in DuckDB; base64 of DuckDB.

use std::str::from_utf8;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::digest::lower_hex;
use crate::scalar::{Bytes, Call, Definition, Kind, Overload, Text};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "encode",
        &[
            Overload::new(&[Kind::Bytes, Kind::Text], Kind::Text, encode),
            Overload::new(&[Kind::Text], Kind::Bytes, bytes_of_text),
        ],
    ),
    Definition::new(
        "decode",
        &[
            Overload::new(&[Kind::Text, Kind::Text], Kind::Bytes, decode),
            Overload::new(&[Kind::Bytes], Kind::Text, text_of_bytes),
        ],
    ),
    Definition::new("to_base64", &[Overload::new(&[Kind::Bytes], Kind::Text, to_base64)])
        .alias(&["base64"]),
    Definition::new("from_base64", &[Overload::new(&[Kind::Text], Kind::Bytes, from_base64)]),
];

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base64 in PostgreSQL.
const LINE: usize = 76;

fn encode(call: &Call) -> Result<ArrayRef> {
    call.map2::<Bytes, Text, Text>(|bytes, format| {
        let text = match format.to_ascii_lowercase().as_str() {
            "hex" => lower_hex(bytes),
            "base64" => lines(&base64(bytes)),
            "base64pad" => base64(bytes),
            "escape" => escaped(bytes),
            _ => return exec_err!("encode has hex, base64 and escape, not {format:?}"),
        };
        Ok(Some(text.into()))
    })
}

fn decode(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Bytes>(|text, format| {
        let bytes = match format.to_ascii_lowercase().as_str() {
            "hex" => of_hex(text),
            "base64" | "base64pad" => of_base64(text),
            "escape" => of_escaped(text),
            _ => return exec_err!("decode has hex, base64 and escape, not {format:?}"),
        };
        match bytes {
            Some(bytes) => Ok(Some(bytes)),
            None => exec_err!("{text:?} is not in the format {format}"),
        }
    })
}

fn bytes_of_text(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Bytes>(|text| Ok(Some(text.as_bytes().to_vec())))
}

fn text_of_bytes(call: &Call) -> Result<ArrayRef> {
    call.map1::<Bytes, Text>(|bytes| match from_utf8(bytes) {
        Ok(text) => Ok(Some(text.into())),
        Err(error) => exec_err!("decode takes bytes of UTF-8: {error}"),
    })
}

fn to_base64(call: &Call) -> Result<ArrayRef> {
    call.map1::<Bytes, Text>(|bytes| Ok(Some(base64(bytes).into())))
}

fn from_base64(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Bytes>(|text| {
        let bytes = of_base64(text);
        bytes.map(Some).ok_or_else(|| exec_datafusion_err!("{text:?} is not base64"))
    })
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_usize, |word, &byte| word << 8 | usize::from(byte));
        let word = word << (8 * (3 - group.len()));
        for digit in 0..4 {
            let is_digit = digit <= group.len();
            let value = word >> (18 - 6 * digit) & 63;
            text.push(if is_digit { char::from(DIGITS[value]) } else { '=' });
        }
    }
    text
}

fn lines(text: &str) -> String {
    let lines = text.as_bytes().chunks(LINE).map(|line| String::from_utf8_lossy(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The bytes of a text of base64, between whose digits may be blanks.
fn of_base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<_> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let padding = digits.iter().rev().take_while(|&&digit| digit == b'=').count();
    if digits.len() % 4 != 0 || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for group in digits[..digits.len() - padding].chunks(4) {
        let word = group.iter().try_fold(0_u32, |word, &digit| Some(word << 6 | value(digit)?))?;
        let word = word << (6 * (4 - group.len()));
        bytes.extend(&word.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

/// The value of a digit of base64.
fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

/// The bytes of pairs of hexadecimal digits, between which may be blanks.
fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let digits = digits.map(|digit| char::from(digit).to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let is_whole = pairs.remainder().is_empty();
    is_whole.then(|| pairs.map(|pair| u8::try_from(16 * pair[0] + pair[1]).ok()).collect())?
}

/// Bytes as text: zero and those above 127 as three octal digits, a backslash doubled.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            0 | 128.. => text.push_str(&format!("\\{byte:03o}")),
            _ => text.push(char::from(byte)),
        }
    }
    text
}

fn of_escaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match rest {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..] => {
                bytes.push((high - b'0') * 64 + (middle - b'0') * 8 + (low - b'0'));
                rest = after;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

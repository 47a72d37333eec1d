//! Percent-encoding of texts.

use std::borrow::Cow;
use std::fmt::Write as _;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err};

use crate::scalar::{Call, Definition, Kind, Overload, Text};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("url_encode", &[Overload::new(&[Kind::Text], Kind::Text, url_encode)]),
    Definition::new("url_decode", &[Overload::new(&[Kind::Text], Kind::Text, url_decode)]),
];

fn url_encode(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| Ok(Some(encoded(text))))
}

fn encoded(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    if text.bytes().all(is_plain) {
        return text.into();
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match is_plain(byte) {
            true => encoded.push(char::from(byte)),
            // Writing to a text cannot fail.
            false => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded.into()
}

fn url_decode(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| {
        if !text.contains('%') {
            return Ok(Some(text.into()));
        }
        let decoded = String::from_utf8(decoded(text.as_bytes()));
        let decoded = decoded.map_err(|_| {
            exec_datafusion_err!("url_decode of {text:?} gives bytes that are not UTF-8")
        })?;
        Ok(Some(decoded.into()))
    })
}

/// The bytes of an encoded text; a percent sign without two digits stays.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let pair = digit(at + 1).zip(digit(at + 2)).filter(|_| byte == b'%');
        match pair.and_then(|(high, low)| u8::try_from(16 * high + low).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                at += 3;
            }
            None => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

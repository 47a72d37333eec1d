//! `convert_from`, `convert_to` and `convert`: texts in other encodings, as in PostgreSQL.

use std::str::from_utf8;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err, plan_datafusion_err};

use super::digest::lower_hex;
use crate::scalar::{Bytes, Call, Definition, Kind, Overload, Text};

use Kind::{Bytes as B, Text as T};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("convert_from", &[Overload::new(&[B, T], T, convert_from)]),
    Definition::new("convert_to", &[Overload::new(&[T, T], B, convert_to)]),
    Definition::new("convert", &[Overload::new(&[B, T, T], B, convert)]),
];

/// The characters of the bytes from 0x80 to 0x9f in WIN1252; `\0` for none.
const WIN1252: [char; 32] = [
    '\u{20ac}', '\0', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\0', '\u{17d}', '\0', '\0',
    '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}',
    '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\0', '\u{17e}', '\u{178}',
];
/// The bytes of LATIN9 that differ from LATIN1, and their characters.
const LATIN9: [(u8, char); 8] = [
    (0xa4, '\u{20ac}'),
    (0xa6, '\u{160}'),
    (0xa8, '\u{161}'),
    (0xb4, '\u{17d}'),
    (0xb8, '\u{17e}'),
    (0xbc, '\u{152}'),
    (0xbd, '\u{153}'),
    (0xbe, '\u{178}'),
];

/// An encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Utf8,
    Latin1,
    Latin9,
    Win1252,
}

impl Charset {
    /// The encoding of a name, whose case, blanks and signs do not matter.
    fn of(name: &str) -> Result<Self> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let plain: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        match plain.as_str() {
            "utf8" | "unicode" => Ok(Self::Utf8),
            "latin1" | "iso88591" => Ok(Self::Latin1),
            "latin9" | "iso885915" => Ok(Self::Latin9),
            "win1252" | "windows1252" => Ok(Self::Win1252),
            _ => Err(plan_datafusion_err!(
                "invalid encoding name {name:?}: UTF8, LATIN1, LATIN9 and WIN1252 are supported"
            )),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF8",
            Self::Latin1 => "LATIN1",
            Self::Latin9 => "LATIN9",
            Self::Win1252 => "WIN1252",
        }
    }

    /// The character of a byte; `None` if there is none.
    fn character(self, byte: u8) -> Option<char> {
        let character = match (self, byte) {
            (_, 0) => return None,
            (Self::Win1252, 0x80..=0x9f) => WIN1252[usize::from(byte - 0x80)],
            (Self::Latin9, _) => {
                let special = LATIN9.into_iter().find(|(own, _)| *own == byte);
                special.map_or(char::from(byte), |(_, character)| character)
            }
            _ => char::from(byte),
        };
        (character != '\0').then_some(character)
    }

    /// The byte of a character; `None` if there is none.
    fn byte(self, character: char) -> Option<u8> {
        let same = u8::try_from(u32::from(character)).ok();
        match same.filter(|byte| self.character(*byte) == Some(character)) {
            Some(byte) => Some(byte),
            None => (0x80..=u8::MAX).find(|byte| self.character(*byte) == Some(character)),
        }
    }

    fn decoded(self, bytes: &[u8]) -> Result<String> {
        let invalid = |bytes: &[u8]| {
            let sequence = lower_hex(bytes);
            exec_err!("invalid byte sequence for encoding {:?}: 0x{sequence}", self.name())
        };
        if self == Self::Utf8 {
            return match from_utf8(bytes) {
                Ok(text) if text.contains('\0') => invalid(&[0]),
                Ok(text) => Ok(text.to_owned()),
                Err(error) => {
                    let wrong = bytes.get(error.valid_up_to()..).unwrap_or_default();
                    invalid(&wrong[..wrong.len().min(error.error_len().unwrap_or(4))])
                }
            };
        }
        let mut text = String::with_capacity(bytes.len());
        for byte in bytes {
            match self.character(*byte) {
                Some(character) => text.push(character),
                None => return invalid(&[*byte]),
            }
        }
        Ok(text)
    }

    fn encoded(self, text: &str) -> Result<Vec<u8>> {
        if self == Self::Utf8 {
            return Ok(text.as_bytes().to_vec());
        }
        let mut bytes = Vec::with_capacity(text.len());
        for character in text.chars() {
            match self.byte(character) {
                Some(byte) => bytes.push(byte),
                None => {
                    let sequence = lower_hex(character.encode_utf8(&mut [0; 4]).as_bytes());
                    return exec_err!(
                        "the character with byte sequence 0x{sequence} in encoding \"UTF8\" has no \
                         equivalent in encoding {:?}",
                        self.name()
                    );
                }
            }
        }
        Ok(bytes)
    }
}

fn convert_from(call: &Call) -> Result<ArrayRef> {
    call.map2::<Bytes, Text, Text>(|bytes, from| {
        Ok(Some(Charset::of(from)?.decoded(bytes)?.into()))
    })
}

fn convert_to(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Bytes>(|text, to| Charset::of(to)?.encoded(text).map(Some))
}

fn convert(call: &Call) -> Result<ArrayRef> {
    call.map3::<Bytes, Text, Text, Bytes>(|bytes, from, to| {
        let text = Charset::of(from)?.decoded(bytes)?;
        Charset::of(to)?.encoded(&text).map(Some)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of PostgreSQL 15.
    #[test]
    fn characters_have_the_bytes_of_postgresql() {
        let of = |name: &str, text: &str| {
            let bytes = Charset::of(name).and_then(|charset| charset.encoded(text));
            bytes.map_or_else(|_| "none".to_owned(), |bytes| lower_hex(&bytes))
        };
        assert_eq!(of("utf-8", "\u{20ac}"), "e282ac");
        assert_eq!(of("LATIN1", "a\u{e4}"), "61e4");
        assert_eq!(of("latin1", "\u{20ac}"), "none");
        assert_eq!(of("ISO_8859_15", "\u{20ac}\u{e4}"), "a4e4");
        assert_eq!(of("LATIN9", "\u{a4}"), "none");
        assert_eq!(of("Windows1252", "\u{20ac}\u{2122}"), "8099");
        assert_eq!(of("WIN1252", "\u{81}"), "none");
        assert_eq!(of("KLINGON", "a"), "none");
    }

    #[test]
    fn bytes_are_read_back() {
        for charset in [Charset::Latin1, Charset::Latin9, Charset::Win1252] {
            for byte in 1..=u8::MAX {
                let Some(character) = charset.character(byte) else { continue };
                assert_eq!(charset.byte(character), Some(byte), "{charset:?} {byte}");
            }
        }
        let error = Charset::Utf8.decoded(b"a\xff").expect_err("not UTF-8").to_string();
        assert!(error.contains("invalid byte sequence for encoding \"UTF8\": 0xff"), "{error}");
        assert!(Charset::Utf8.decoded(b"\0").is_err());
        assert!(Charset::Win1252.decoded(b"\x81").is_err());
    }
}

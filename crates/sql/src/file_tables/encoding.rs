//! Encodings of files of text, which become UTF-8 while they are read.

use std::io::{Error, ErrorKind, Read, Result};

/// Number of bytes that are converted at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The encoding of a file of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Utf8,
    /// ISO 8859-1: a byte for each of the first 256 characters.
    Latin1,
    /// In the byte order of the mark at the beginning; little-endian without one.
    Utf16,
}

impl Encoding {
    /// Names of the encodings, for errors.
    pub(crate) const NAMES: &'static str = "utf-8, latin-1 or utf-16";

    /// The encoding of a name, as DuckDB and PostgreSQL write it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let plain: String = name.to_ascii_lowercase().replace(['-', '_', ' '], "");
        match plain.as_str() {
            "utf8" => Some(Self::Utf8),
            "latin1" | "iso88591" => Some(Self::Latin1),
            "utf16" => Some(Self::Utf16),
            _ => None,
        }
    }

    /// The bytes of a file in UTF-8.
    pub(super) fn decoded(self, input: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        match self {
            Self::Utf8 => input,
            encoding => Box::new(Decoder {
                input,
                encoding,
                raw: vec![],
                is_big_endian: None,
                is_end: false,
                decoded: String::new(),
                at: 0,
            }),
        }
    }
}

/// Reader that converts to UTF-8.
struct Decoder {
    input: Box<dyn Read + Send>,
    encoding: Encoding,
    /// Bytes that are not converted yet: a part of a character after each step.
    raw: Vec<u8>,
    /// The byte order of UTF-16, once it is known.
    is_big_endian: Option<bool>,
    is_end: bool,
    /// Converted text, which has been returned up to `at`.
    decoded: String,
    at: usize,
}

impl Decoder {
    /// Converts the next bytes.
    fn step(&mut self) -> Result<()> {
        self.decoded.clear();
        self.at = 0;
        let chunk = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
        let read = self.input.by_ref().take(chunk).read_to_end(&mut self.raw)?;
        self.is_end = read < CHUNK_BYTES;
        match self.encoding {
            Encoding::Utf16 => self.decode_utf16(),
            Encoding::Utf8 | Encoding::Latin1 => {
                self.decoded.extend(self.raw.drain(..).map(char::from));
                Ok(())
            }
        }
    }

    fn decode_utf16(&mut self) -> Result<()> {
        let is_big_endian = *self.is_big_endian.get_or_insert_with(|| {
            let mark = self.raw.get(..2).map(|mark| [mark[0], mark[1]]);
            if matches!(mark, Some([0xff, 0xfe] | [0xfe, 0xff])) {
                self.raw.drain(..2);
            }
            mark == Some([0xfe, 0xff])
        });
        let mut units: Vec<u16> = self
            .raw
            .chunks_exact(2)
            .map(|pair| {
                let pair = [pair[0], pair[1]];
                if is_big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
            })
            .collect();
        // The second half of a character may be in the next bytes.
        let is_first_half = |unit: &u16| (0xd800..0xdc00).contains(unit);
        if !self.is_end && units.last().is_some_and(is_first_half) {
            units.pop();
        }
        self.raw.drain(..2 * units.len());
        if self.is_end && !self.raw.is_empty() {
            return Err(malformed());
        }
        for character in char::decode_utf16(units) {
            self.decoded.push(character.map_err(|_half| malformed())?);
        }
        Ok(())
    }
}

impl Read for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.at == self.decoded.len() && !self.is_end {
            self.step()?;
        }
        let ready = &self.decoded.as_bytes()[self.at..];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.at += count;
        Ok(count)
    }
}

fn malformed() -> Error {
    Error::new(ErrorKind::InvalidData, "its bytes are no UTF-16; name its encoding")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn decoded(encoding: Encoding, bytes: Vec<u8>) -> Result<String> {
        let mut text = String::new();
        encoding.decoded(Box::new(Cursor::new(bytes))).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn texts_become_utf8() {
        let latin = decoded(Encoding::Latin1, vec![b'a', 0xe9, 0xff]).expect("text");
        assert_eq!(latin, "a\u{e9}\u{ff}");
        // A character of two units lies across the end of the first chunk.
        let text = format!("{}\u{1f600}b\u{e9}", "x".repeat(CHUNK_BYTES / 2 - 2));
        let units = || std::iter::once(0xfeff).chain(text.encode_utf16());
        for bytes in [
            units().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
            units().flat_map(u16::to_be_bytes).collect(),
            text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        ] {
            assert_eq!(decoded(Encoding::Utf16, bytes).expect("text"), text);
        }
        assert_eq!(decoded(Encoding::Utf16, vec![]).expect("nothing"), "");
    }

    #[test]
    fn parts_of_characters_are_refused() {
        for bytes in [vec![b'a'], vec![b'a', 0, b'b'], vec![0x3d, 0xd8], vec![0, 0xdc, b'a', 0]] {
            assert!(decoded(Encoding::Utf16, bytes.clone()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn names_have_several_forms() {
        for (name, encoding) in [
            ("UTF8", Some(Encoding::Utf8)),
            ("utf-8", Some(Encoding::Utf8)),
            ("LATIN1", Some(Encoding::Latin1)),
            ("latin-1", Some(Encoding::Latin1)),
            ("ISO_8859_1", Some(Encoding::Latin1)),
            ("iso-8859-1", Some(Encoding::Latin1)),
            ("utf-16", Some(Encoding::Utf16)),
            ("utf-7", None),
        ] {
            assert_eq!(Encoding::named(name), encoding, "{name}");
        }
    }
}

//! Functions of bytes that PostgreSQL has under the names of functions of texts, and `get_byte`,
//! `set_byte`, `get_bit` and `set_bit`.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use crate::scalar::{Bool, Bytes, Call, Definition, Int, Int32, Kind, Overload, Returns};

use Kind::{Bytes as B, Integer as I};

/// Functions of bytes alone.
pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("get_byte", &[Overload::returning(&[B, I], Returns::Integer32, get_byte)]),
    Definition::new("set_byte", &[Overload::new(&[B, I, I], B, set_byte)]),
    Definition::new("get_bit", &[Overload::returning(&[B, I], Returns::Integer32, get_bit)]),
    Definition::new("set_bit", &[Overload::new(&[B, I, I], B, set_bit)]),
];

/// The forms for bytes of functions of texts.
pub(super) static FORMS: &[Definition] = &[
    Definition::new("octet_length", &[Overload::returning(&[B], Returns::Integer32, length)]),
    Definition::new("bit_length", &[Overload::returning(&[B], Returns::Integer32, length)]),
    Definition::new(
        "substr",
        &[Overload::new(&[B, I], B, part), Overload::new(&[B, I, I], B, part)],
    ),
    Definition::new("strpos", &[Overload::returning(&[B, B], Returns::Integer32, position)]),
    Definition::new("btrim", &[Overload::new(&[B, B], B, trim)]),
    Definition::new("ltrim", &[Overload::new(&[B, B], B, trim)]),
    Definition::new("rtrim", &[Overload::new(&[B, B], B, trim)]),
    Definition::new(
        "overlay",
        &[Overload::new(&[B, B, I], B, overlay), Overload::new(&[B, B, I, I], B, overlay)],
    ),
];

/// The number of bytes under the name of that of characters.
pub(super) static LENGTH: Definition =
    Definition::new("character_length", &[Overload::returning(&[B], Returns::Integer32, length)]);

/// `value LIKE pattern`, with the byte of the escape character, or none, as third argument.
pub(super) static LIKE: Definition = Definition::new(
    "bytes_like",
    &[Overload::new(&[B, B], Kind::Boolean, like), Overload::new(&[B, B, B], Kind::Boolean, like)],
);

fn length(call: &Call) -> Result<ArrayRef> {
    let unit = if call.name() == "bit_length" { 8 } else { 1 };
    call.map1::<Bytes, Int32>(|bytes| Ok(i32::try_from(bytes.len().saturating_mul(unit)).ok()))
}

/// The bytes from a place, of which the first is 1, or `count` of them.
fn part(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Bytes>(|row| {
        let (Some(bytes), Some(from)) = (call.value::<Bytes>(0, row)?, call.value::<Int>(1, row)?)
        else {
            return Ok(None);
        };
        let count = match call.len() {
            3 => match call.value::<Int>(2, row)? {
                Some(count) => Some(count),
                None => return Ok(None),
            },
            _ => None,
        };
        let (begin, end) = range(bytes.len(), from, count)?;
        Ok(Some(bytes[begin..end].to_vec()))
    })
}

/// The start and end, within `length` bytes, of `count` bytes from position `from` on; of all bytes
/// from there without a count.
fn range(length: usize, from: i64, count: Option<i64>) -> Result<(usize, usize)> {
    let end = match count {
        Some(..0) => return exec_err!("negative substring length not allowed"),
        Some(count) => from.saturating_add(count),
        None => i64::MAX,
    };
    let place = |at: i64| usize::try_from(at.saturating_sub(1)).unwrap_or(0).min(length);
    let begin = place(from);
    Ok((begin, place(end).max(begin)))
}

/// The place of the first occurrence, from 1; 0 if there is none.
fn position(call: &Call) -> Result<ArrayRef> {
    call.map2::<Bytes, Bytes, Int32>(|bytes, wanted| {
        let place = match wanted.is_empty() {
            true => Some(0),
            false => bytes.windows(wanted.len()).position(|part| part == wanted),
        };
        Ok(place.map_or(Some(0), |place| i32::try_from(place + 1).ok()))
    })
}

fn trim(call: &Call) -> Result<ArrayRef> {
    let (at_begin, at_end) = (call.name() != "rtrim", call.name() != "ltrim");
    call.map2::<Bytes, Bytes, Bytes>(|bytes, trimmed| {
        let mut rest = bytes;
        while let Some((first, more)) = rest.split_first()
            && at_begin
            && trimmed.contains(first)
        {
            rest = more;
        }
        while let Some((last, more)) = rest.split_last()
            && at_end
            && trimmed.contains(last)
        {
            rest = more;
        }
        Ok(Some(rest.to_vec()))
    })
}

/// `overlay(old, new, from, count)`: replaces `count` bytes from position `from` on by the new
/// ones; without a count, as many as there are new ones.
fn overlay(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Bytes>(|row| {
        let bytes = |argument| call.value::<Bytes>(argument, row);
        let (Some(old), Some(new)) = (bytes(0)?, bytes(1)?) else { return Ok(None) };
        let Some(from) = call.value::<Int>(2, row)? else { return Ok(None) };
        let count = match call.len() {
            4 => call.value::<Int>(3, row)?,
            _ => i64::try_from(new.len()).ok(),
        };
        let Some(count) = count else { return Ok(None) };
        if from < 1 {
            return exec_err!("negative substring length not allowed");
        }
        let (begin, _) = range(old.len(), from, None)?;
        let (end, _) = range(old.len(), from.saturating_add(count), None)?;
        Ok(Some([&old[..begin], new, &old[end..]].concat()))
    })
}

/// The place of a byte or bit.
fn place(number: i64, length: usize) -> Result<usize> {
    match usize::try_from(number).ok().filter(|place| *place < length) {
        Some(place) => Ok(place),
        None => {
            let last = i128::try_from(length).unwrap_or(i128::MAX) - 1;
            exec_err!("index {number} out of valid range, 0..{last}")
        }
    }
}

fn get_byte(call: &Call) -> Result<ArrayRef> {
    call.map2::<Bytes, Int, Int32>(|bytes, number| {
        Ok(Some(bytes[place(number, bytes.len())?].into()))
    })
}

fn set_byte(call: &Call) -> Result<ArrayRef> {
    call.map3::<Bytes, Int, Int, Bytes>(|bytes, number, value| {
        let mut bytes = bytes.to_vec();
        let place = place(number, bytes.len())?;
        bytes[place] = value.to_le_bytes()[0];
        Ok(Some(bytes))
    })
}

fn get_bit(call: &Call) -> Result<ArrayRef> {
    call.map2::<Bytes, Int, Int32>(|bytes, number| {
        let place = place(number, bytes.len().saturating_mul(8))?;
        Ok(Some((bytes[place / 8] >> (place % 8) & 1).into()))
    })
}

fn set_bit(call: &Call) -> Result<ArrayRef> {
    call.map3::<Bytes, Int, Int, Bytes>(|bytes, number, value| {
        let mut bytes = bytes.to_vec();
        let place = place(number, bytes.len().saturating_mul(8))?;
        let bit = 1 << (place % 8);
        match value {
            0 => bytes[place / 8] &= !bit,
            1 => bytes[place / 8] |= bit,
            _ => return exec_err!("new bit must be 0 or 1"),
        }
        Ok(Some(bytes))
    })
}

fn like(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Bool>(|row| {
        let bytes = |argument| call.value::<Bytes>(argument, row);
        let (Some(value), Some(pattern)) = (bytes(0)?, bytes(1)?) else { return Ok(None) };
        let escape = match call.len() {
            3 => bytes(2)?.and_then(|escape| escape.first().copied()),
            _ => Some(b'\\'),
        };
        Ok(Some(matches(value, &pieces(pattern, escape)?)))
    })
}

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    Any,
    Many,
}

fn pieces(pattern: &[u8], escape: Option<u8>) -> Result<Vec<Piece>> {
    let mut pieces = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        pieces.push(match byte {
            byte if Some(*byte) == escape => match bytes.next() {
                Some(next) => Piece::Byte(*next),
                None => return exec_err!("LIKE pattern must not end with escape character"),
            },
            b'%' => Piece::Many,
            b'_' => Piece::Any,
            byte => Piece::Byte(*byte),
        });
    }
    Ok(pieces)
}

/// True if a pattern matches all of `value`. On a mismatch, the search resumes behind the last `%`,
/// which matches one more byte each time.
fn matches(value: &[u8], pieces: &[Piece]) -> bool {
    let (mut at, mut piece) = (0, 0);
    let mut retry = None;
    while at < value.len() {
        match pieces.get(piece) {
            Some(Piece::Many) => {
                piece += 1;
                retry = Some((at, piece));
            }
            Some(Piece::Any) => (at, piece) = (at + 1, piece + 1),
            Some(Piece::Byte(byte)) if *byte == value[at] => (at, piece) = (at + 1, piece + 1),
            _ => match retry {
                None => return false,
                Some((begin, next)) => {
                    retry = Some((begin + 1, next));
                    (at, piece) = (begin + 1, next);
                }
            },
        }
    }
    pieces[piece..].iter().all(|piece| *piece == Piece::Many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_bytes() {
        let is_like = |value: &[u8], pattern: &[u8]| {
            matches(value, &pieces(pattern, Some(b'\\')).expect("pattern"))
        };
        assert!(is_like(b"\x00\xff\x01", b"\x00%"));
        assert!(is_like(b"\x00\xff\x01", b"%\xff_"));
        assert!(is_like(b"abab", b"%ab"));
        assert!(!is_like(b"aba", b"%ab"));
        assert!(is_like(b"%", b"\\%"));
        assert!(!is_like(b"a", b"\\%"));
        assert!(is_like(b"", b"%"));
        assert!(!is_like(b"", b"_"));
        assert!(pieces(b"a\\", Some(b'\\')).is_err());
    }

    /// The results of PostgreSQL 15.
    #[test]
    fn parts_begin_before_the_first_byte() {
        assert_eq!(range(3, -1, Some(3)).expect("range"), (0, 1));
        assert_eq!(range(3, 2, Some(1)).expect("range"), (1, 2));
        assert_eq!(range(3, 5, Some(1)).expect("range"), (3, 3));
        assert_eq!(range(3, 2, Some(i64::MAX)).expect("range"), (1, 3));
        assert!(range(3, 1, Some(-1)).is_err());
    }
}

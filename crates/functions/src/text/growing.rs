//! Functions of texts whose results may be longer than their arguments: `lpad`, `rpad`, `repeat`,
//! `replace` and `regexp_replace`, as PostgreSQL has them.
//!
//! DataFusion builds the result without a bound on its size, and panics for some negative lengths.

use std::borrow::Cow;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use regex::Regex;

use super::matches::{bounded, byte_at, matches};
use super::pattern::{Options, Patterns};
use super::room::Room;
use crate::scalar::{Call, Definition, Int, Kind, Overload, Text};

const COUNT: &[Kind] = &[Kind::Text, Kind::Integer];
const FILLED: &[Kind] = &[Kind::Text, Kind::Integer, Kind::Text];
const THREE: &[Kind] = &[Kind::Text, Kind::Text, Kind::Text];
const FOUR: &[Kind] = &[Kind::Text, Kind::Text, Kind::Text, Kind::Text];
const SIX: &[Kind] =
    &[Kind::Text, Kind::Text, Kind::Text, Kind::Integer, Kind::Integer, Kind::Text];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("lpad", &[Overload::new(FILLED, Kind::Text, pad).optional(1)]),
    Definition::new("rpad", &[Overload::new(FILLED, Kind::Text, pad).optional(1)]),
    Definition::new("repeat", &[Overload::new(COUNT, Kind::Text, repeat)]),
    Definition::new("replace", &[Overload::new(THREE, Kind::Text, replace)]),
    Definition::new(
        "regexp_replace",
        &[
            Overload::new(FOUR, Kind::Text, regexp_replace).optional(1),
            Overload::new(SIX, Kind::Text, regexp_replace).optional(2),
        ],
    ),
];

fn pad(call: &Call) -> Result<ArrayRef> {
    let at_left = call.name() == "lpad";
    let mut room = Room::new(call.name());
    match call.len() {
        2 => call.map2::<Text, Int, Text>(|text, length| {
            padded(&mut room, text, length, " ", at_left).map(Some)
        }),
        _ => call.map3::<Text, Int, Text, Text>(|text, length, fill| {
            padded(&mut room, text, length, fill, at_left).map(Some)
        }),
    }
}

/// A text of `length` characters: its first ones, or the text and repeated characters of `fill`.
fn padded<'a>(
    room: &mut Room<'_>,
    text: &'a str,
    length: i64,
    fill: &str,
    at_left: bool,
) -> Result<Cow<'a, str>> {
    let length = usize::try_from(length.max(0)).unwrap_or(usize::MAX);
    let characters = text.chars().count();
    if length <= characters {
        let end = text.char_indices().nth(length).map_or(text.len(), |(end, _)| end);
        return Ok(text[..end].into());
    }
    let fills = fill.chars().count();
    if fills == 0 {
        return Ok(text.into());
    }
    let missing = length - characters;
    let rest = fill.char_indices().nth(missing % fills).map_or(0, |(end, _)| end);
    let filled = (missing / fills).saturating_mul(fill.len()).saturating_add(rest);
    room.take(filled.saturating_add(text.len()))?;
    let mut filling = fill.repeat(missing / fills);
    filling.push_str(&fill[..rest]);
    Ok(if at_left { filling + text } else { text.to_owned() + &filling }.into())
}

fn repeat(call: &Call) -> Result<ArrayRef> {
    let mut room = Room::new(call.name());
    call.map2::<Text, Int, Text>(|text, times| {
        let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
        if text.is_empty() {
            return Ok(Some(text.into()));
        }
        room.take(text.len().saturating_mul(times))?;
        Ok(Some(text.repeat(times).into()))
    })
}

/// Replaces each occurrence of a text; the empty text does not occur.
fn replace(call: &Call) -> Result<ArrayRef> {
    let mut room = Room::new(call.name());
    call.map3::<Text, Text, Text, Text>(|text, from, to| {
        if from.is_empty() || from.len() > text.len() {
            return Ok(Some(text.into()));
        }
        let count = text.matches(from).count();
        if count == 0 {
            return Ok(Some(text.into()));
        }
        let kept = text.len().saturating_sub(count.saturating_mul(from.len()));
        room.take(kept.saturating_add(count.saturating_mul(to.len())))?;
        Ok(Some(text.replace(from, to).into()))
    })
}

/// `regexp_replace(text, pattern, replacement, start, number, options)`: replaces one match, the
/// first by default; all for the number 0, or with the option `g` and no number. The options may
/// follow the replacement.
fn regexp_replace(call: &Call) -> Result<ArrayRef> {
    let mut room = Room::new(call.name());
    let mut patterns = Patterns::default();
    let mut template = (String::new(), Vec::new());
    let has_start = call.fields().get(3).is_some_and(|field| field.data_type().is_integer());
    let options_at = if has_start { 5 } else { 3 };
    call.rows_of::<Text>(|row| {
        let text = |at| call.value::<Text>(at, row);
        let all = (text(0)?, text(1)?, text(2)?);
        let (Some(value), Some(pattern), Some(replacement)) = all else { return Ok(None) };
        let options = if options_at < call.len() { text(options_at)? } else { Some("") };
        let Some(options) = options else { return Ok(None) };
        let default = if options.contains('g') { 0 } else { 1 };
        let start = if has_start { bounded(call, row, (3, "start"), 1, 1)? } else { Some(1) };
        let number =
            if has_start { bounded(call, row, (4, "n"), 0, default)? } else { Some(default) };
        let (Some(start), Some(number)) = (start, number) else { return Ok(None) };
        if template.0 != replacement || template.1.is_empty() {
            template = (replacement.to_owned(), pieces(replacement));
        }
        let pattern = patterns.of(pattern, Options::of_postgres(&options.replace('g', ""))?)?;
        let Some(from) = byte_at(value, start) else { return Ok(Some(value.into())) };
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        replaced(&mut room, pattern, (value, from), &template.1, number).map(Some)
    })
}

/// A part of a replacement.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The text that a group of the match has, or the match itself.
    Group(usize),
}

/// The parts of a replacement, in which `\1` to `\9` are groups, `\&` is the match and `\\` is a
/// backslash; never none.
fn pieces(replacement: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut letters = replacement.chars();
    while let Some(letter) = letters.next() {
        let group = match letter {
            '\\' => match letters.next() {
                Some('&') => Some(0),
                Some(digit @ '1'..='9') => digit.to_digit(10).and_then(|it| it.try_into().ok()),
                Some('\\') | None => None,
                Some(other) => {
                    text.push('\\');
                    text.push(other);
                    continue;
                }
            },
            other => {
                text.push(other);
                continue;
            }
        };
        match group {
            Some(group) => {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(Piece::Group(group));
            }
            None => text.push('\\'),
        }
    }
    pieces.push(Piece::Text(text));
    pieces
}

/// A text with one of its matches from a byte on replaced, or all for the number 0.
fn replaced<'a>(
    room: &mut Room<'_>,
    pattern: &Regex,
    (text, from): (&'a str, usize),
    pieces: &[Piece],
    number: usize,
) -> Result<Cow<'a, str>> {
    let mut out = String::new();
    let mut end = 0;
    let (skipped, limit) = match number {
        0 => (0, usize::MAX),
        number => (number - 1, 1),
    };
    for found in matches(pattern, text, from).skip(skipped).take(limit) {
        let Some(whole) = found.get(0) else { continue };
        let before = text.get(end..whole.start()).unwrap_or_default();
        push(room, &mut out, before)?;
        for piece in pieces {
            let part = match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Group(group) => found.get(*group).map_or("", |it| it.as_str()),
            };
            push(room, &mut out, part)?;
        }
        end = whole.end();
    }
    if out.is_empty() && end == 0 {
        return Ok(text.into());
    }
    push(room, &mut out, text.get(end..).unwrap_or_default())?;
    Ok(out.into())
}

fn push(room: &mut Room<'_>, out: &mut String, part: &str) -> Result<()> {
    room.take(part.len())?;
    out.push_str(part);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str, text: &str, replacement: &str, number: usize) -> String {
        let pattern = Regex::new(pattern).expect("a pattern");
        let room = &mut Room::new("regexp_replace");
        let result = replaced(room, &pattern, (text, 0), &pieces(replacement), number);
        result.expect("short").into_owned()
    }

    /// Expected values from PostgreSQL 15.
    #[test]
    fn replacements_are_those_of_postgresql() {
        assert_eq!(of("b(.)", "abcbd", r"<\1\&\\>", 0), r"a<cbc\><dbd\>");
        assert_eq!(of("b", "abab", "", 1), "aab");
        assert_eq!(of("x*", "ab", "-", 0), "-a-b-");
        assert_eq!(of("x*", "axb", "-", 0), "-a--b-");
        assert_eq!(of("a", "aaaa", "b", 2), "abaa");
        assert_eq!(of("z", "ab", "-", 0), "ab");
        assert_eq!(of("a", "a", "$0 $1", 1), "$0 $1");
        assert_eq!(of("a", "a", r"\z\0", 1), r"\z\0");
    }

    #[test]
    fn texts_are_padded_on_both_sides() {
        let room = &mut Room::new("lpad");
        let mut pad = |text: &'static str, length, fill, at_left| {
            padded(room, text, length, fill, at_left).map(Cow::into_owned).ok()
        };
        assert_eq!(pad("ab", 5, "xyz", true).as_deref(), Some("xyzab"));
        assert_eq!(pad("ab", 7, "xyz", false).as_deref(), Some("abxyzxy"));
        assert_eq!(pad("\u{e4}b", 1, "x", true).as_deref(), Some("\u{e4}"));
        assert_eq!(pad("ab", -3, "x", false).as_deref(), Some(""));
        assert_eq!(pad("ab", 5, "", false).as_deref(), Some("ab"));
        assert_eq!(pad("ab", i64::MAX, "x", false), None);
    }
}

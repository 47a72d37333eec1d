//! PostgreSQL's functions of the matches of a regular expression.
//!
//! `regexp_match_list` has the matches of `regexp_matches`, which returns a row for each of them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use regex::{Captures, Regex};

use super::pattern::{Options, Patterns};
use super::regex::{integer, options, parts};
use super::room::Room;
use crate::scalar::{Bool, Call, Definition, Int32, Kind, Overload, Returns, Text, TextList};

use Kind::{Integer as I, Text as T};

/// Bytes that an element of a list takes in addition to those of its text.
const ELEMENT_BYTES: usize = 16;

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "regexp_match",
        &[Overload::new(&[T, T, T], Kind::Texts, first_match).optional(1)],
    ),
    Definition::new(
        "regexp_match_list",
        &[Overload::returning(&[T, T, T], Returns::By(lists), match_lists).optional(1)],
    ),
    Definition::new("regexp_like", &[Overload::new(&[T, T, T], Kind::Boolean, like).optional(1)]),
    Definition::new(
        "regexp_count",
        &[Overload::returning(&[T, T, I, T], Returns::Integer32, count).optional(2)],
    ),
    Definition::new(
        "regexp_instr",
        &[Overload::returning(&[T, T, I, I, I, T, I], Returns::Integer32, place).optional(5)],
    ),
    Definition::new("regexp_substr", &[Overload::new(&[T, T, I, I, T, I], T, substr).optional(4)]),
];

/// The matches of a text from a byte on: each begins where the last one ends, or one character
/// behind it if it is empty.
pub(super) fn matches<'t>(
    regex: &Regex,
    text: &'t str,
    from: usize,
) -> impl Iterator<Item = Captures<'t>> {
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let found = regex.captures_at(text, next.take()?)?;
        let whole = found.get(0)?;
        next = match whole.is_empty() {
            false => Some(whole.end()),
            true => {
                let letter = text.get(whole.end()..).and_then(|rest| rest.chars().next());
                letter.map(|letter| whole.end() + letter.len_utf8())
            }
        };
        Some(found)
    })
}

/// The byte of the character at a place that is counted from one; `None` behind the end.
pub(super) fn byte_at(text: &str, place: i64) -> Option<usize> {
    let before = usize::try_from(place).ok()?.checked_sub(1)?;
    text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(before)
}

/// An optional integer that is at least `least`; `None` for null.
///
/// # Errors
/// If it is less.
pub(super) fn bounded(
    call: &Call,
    row: usize,
    (argument, name): (usize, &str),
    least: i64,
    default: i64,
) -> Result<Option<i64>> {
    match integer(call, argument, row, default)? {
        Some(value) if value < least => {
            exec_err!("{}: invalid value for parameter {name:?}: {value}", call.name())
        }
        value => Ok(value),
    }
}

/// The options in an argument, without `g`.
fn single(call: &Call, argument: usize, row: usize) -> Result<Option<Options>> {
    if argument < call.len() && call.value::<Text>(argument, row)?.is_some_and(is_global) {
        return exec_err!(
            "{} does not support the option g; regexp_matches has rows of all matches",
            call.name()
        );
    }
    options(call, argument, row, Options::of_postgres)
}

fn is_global(letters: &str) -> bool {
    letters.contains('g')
}

/// The groups of a match, or the match itself if the expression has none.
fn groups<'t>(found: &Captures<'t>) -> Vec<Option<&'t str>> {
    let first = usize::from(found.len() > 1);
    (first..found.len()).map(|group| found.get(group).map(|it| it.as_str())).collect()
}

fn first_match(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<TextList>(|row| {
        let parts = parts(call, row, &mut patterns, single(call, 2, row)?)?;
        let found = parts.and_then(|(text, regex)| regex.captures(text));
        Ok(found.map(|found| groups(&found).into_iter().map(|it| it.map(Into::into)).collect()))
    })
}

fn lists(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::new_list(DataType::new_list(DataType::Utf8, true), true))
}

/// A list of the groups of each match, of the first match without the option `g`.
fn match_lists(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let mut room = Room::new(call.name());
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for row in 0..call.rows() {
        let letters = if call.len() > 2 { call.value::<Text>(2, row)? } else { Some("") };
        let given = letters.map(|letters| Options::of_postgres(&letters.replace('g', "")));
        let Some((text, regex)) = parts(call, row, &mut patterns, given.transpose()?)? else {
            lists.append_null();
            continue;
        };
        let limit = if letters.is_some_and(is_global) { usize::MAX } else { 1 };
        for found in matches(regex, text, 0).take(limit) {
            for group in groups(&found) {
                room.take(group.map_or(0, str::len) + ELEMENT_BYTES)?;
                lists.values().values().append_option(group);
            }
            lists.values().append(true);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn like(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<Bool>(|row| {
        let parts = parts(call, row, &mut patterns, single(call, 2, row)?)?;
        Ok(parts.map(|(text, regex)| regex.is_match(text)))
    })
}

/// `regexp_count(text, pattern, start, options)`.
fn count(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<Int32>(|row| {
        let start = bounded(call, row, (2, "start"), 1, 1)?;
        let parts = parts(call, row, &mut patterns, single(call, 3, row)?)?;
        let (Some(start), Some((text, regex))) = (start, parts) else { return Ok(None) };
        let count = byte_at(text, start).map_or(0, |from| matches(regex, text, from).count());
        Ok(i32::try_from(count).ok())
    })
}

/// `regexp_instr(text, pattern, start, number, end, options, group)`: the place of a match or of
/// the character behind it, 0 without it.
fn place(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<Int32>(|row| {
        let end = bounded(call, row, (4, "endoption"), 0, 0)?;
        if let Some(end @ 2..) = end {
            return exec_err!("{}: invalid value for parameter \"endoption\": {end}", call.name());
        }
        let Some((text, found)) = chosen(call, row, &mut patterns, (5, 6))? else {
            return Ok(None);
        };
        let Some(end) = end else { return Ok(None) };
        let Some(range) = found else { return Ok(Some(0)) };
        let byte = if end == 1 { range.end } else { range.start };
        let before = text.get(..byte).map_or(0, |before| before.chars().count());
        Ok(i32::try_from(before + 1).ok())
    })
}

/// `regexp_substr(text, pattern, start, number, options, group)`: one match, null without it.
fn substr(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<Text>(|row| {
        let Some((text, found)) = chosen(call, row, &mut patterns, (4, 5))? else {
            return Ok(None);
        };
        Ok(found.and_then(|range| text.get(range)).map(Into::into))
    })
}

/// A text, and the byte range of a match or group in it; `None` without a match.
type Place<'a> = (&'a str, Option<std::ops::Range<usize>>);

/// The text of a row, and the range of a group of the match that its arguments choose; options and
/// group are those of the arguments at `(options, group)`. `None` if an argument is null.
fn chosen<'a>(
    call: &'a Call,
    row: usize,
    patterns: &mut Patterns,
    (options, group): (usize, usize),
) -> Result<Option<Place<'a>>> {
    let start = bounded(call, row, (2, "start"), 1, 1)?;
    let number = bounded(call, row, (3, "n"), 1, 1)?;
    let group = bounded(call, row, (group, "subexpr"), 0, 0)?;
    let parts = parts(call, row, patterns, single(call, options, row)?)?;
    let (Some(start), Some(number), Some(group), Some((text, regex))) =
        (start, number, group, parts)
    else {
        return Ok(None);
    };
    let group = usize::try_from(group).unwrap_or(usize::MAX);
    let before = usize::try_from(number - 1).unwrap_or(usize::MAX);
    let found = byte_at(text, start).and_then(|from| matches(regex, text, from).nth(before));
    let range = found.and_then(|found| found.get(group).map(|it| it.range()));
    Ok(Some((text, range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pattern: &str, text: &str, from: usize) -> Vec<String> {
        let regex = Regex::new(pattern).expect("a pattern");
        matches(&regex, text, from).map(|found| found[0].to_owned()).collect()
    }

    /// The matches of `regexp_matches` with the option `g` in PostgreSQL 15.
    #[test]
    fn empty_matches_follow_others() {
        assert_eq!(all("x*", "axb", 0), ["", "x", "", ""]);
        assert_eq!(all("x*", "ax", 0), ["", "x", ""]);
        assert_eq!(all("a", "abab", 1), ["a"]);
        assert_eq!(all("^a", "aba", 2), [""; 0]);
        assert_eq!(all("", "\u{e4}", 0), ["", ""]);
    }

    #[test]
    fn places_are_those_of_characters() {
        assert_eq!(byte_at("\u{e4}b", 2), Some(2));
        assert_eq!(byte_at("\u{e4}b", 3), Some(3));
        assert_eq!(byte_at("\u{e4}b", 4), None);
        assert_eq!(byte_at("", 1), Some(0));
    }

    #[test]
    fn groups_without_a_match_are_null() {
        let regex = Regex::new("(x)?b(c)").expect("a pattern");
        let found = regex.captures("abc").expect("a match");
        assert_eq!(groups(&found), [None, Some("c")]);
        let regex = Regex::new("b").expect("a pattern");
        assert_eq!(groups(&regex.captures("abc").expect("a match")), [Some("b")]);
    }
}

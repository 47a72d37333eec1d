//! Regular expressions of DuckDB, and parts of a text in PostgreSQL.
//!
//! `regexp_matches` is DuckDB's: it returns true or false. With the option `g`, and in FROM, it is
//! PostgreSQL's, which returns rows.

use std::borrow::Cow;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};
use regex::Regex;

use super::pattern::{Options, Patterns};
use crate::scalar::{Bool, Call, Definition, Int, Kind, Overload, Text, TextList};

const TEXT: &[Kind] = &[Kind::Text];
const WITH_OPTIONS: &[Kind] = &[Kind::Text, Kind::Text, Kind::Text];
const WITH_BOTH: &[Kind] = &[Kind::Text, Kind::Text, Kind::Integer, Kind::Text];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "regexp_matches",
        &[Overload::new(WITH_OPTIONS, Kind::Boolean, matches).optional(1)],
    ),
    Definition::new(
        "regexp_full_match",
        &[Overload::new(WITH_OPTIONS, Kind::Boolean, full_match).optional(1)],
    ),
    Definition::new("regexp_extract", &[Overload::new(WITH_BOTH, Kind::Text, extract).optional(2)]),
    Definition::new(
        "regexp_extract_all",
        &[Overload::new(WITH_BOTH, Kind::Texts, extract_all).optional(2)],
    ),
    Definition::new(
        "regexp_split_to_array",
        &[Overload::new(WITH_OPTIONS, Kind::Texts, split_postgres).optional(1)],
    ),
    Definition::new(
        "string_split_regex",
        &[Overload::new(WITH_OPTIONS, Kind::Texts, split_duckdb).optional(1)],
    )
    .alias(&["str_split_regex"]),
    Definition::new("regexp_escape", &[Overload::new(TEXT, Kind::Text, escape)]),
];

/// The options in an argument; those of the empty text without such an argument, `None` for null.
pub(super) fn options(
    call: &Call,
    argument: usize,
    row: usize,
    parse: fn(&str) -> Result<Options>,
) -> Result<Option<Options>> {
    match argument < call.len() {
        true => call.value::<Text>(argument, row)?.map(parse).transpose(),
        false => parse("").map(Some),
    }
}

/// An optional integer; `default` without such an argument, `None` for null.
pub(super) fn integer(
    call: &Call,
    argument: usize,
    row: usize,
    default: i64,
) -> Result<Option<i64>> {
    if argument < call.len() { call.value::<Int>(argument, row) } else { Ok(Some(default)) }
}

/// The text and the compiled expression of a row; `None` if either is null.
pub(super) fn parts<'a, 'b>(
    call: &'a Call,
    row: usize,
    patterns: &'b mut Patterns,
    options: Option<Options>,
) -> Result<Option<(&'a str, &'b Regex)>> {
    match (call.value::<Text>(0, row)?, call.value::<Text>(1, row)?, options) {
        (Some(text), Some(pattern), Some(options)) => {
            Ok(Some((text, patterns.of(pattern, options)?)))
        }
        _ => Ok(None),
    }
}

fn matches(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<Bool>(|row| {
        let options = options(call, 2, row, Options::of_duckdb)?;
        let parts = parts(call, row, &mut patterns, options)?;
        Ok(parts.map(|(text, regex)| regex.is_match(text)))
    })
}

fn full_match(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<Bool>(|row| {
        let options = options(call, 2, row, Options::of_duckdb)?.map(Options::whole);
        let parts = parts(call, row, &mut patterns, options)?;
        Ok(parts.map(|(text, regex)| regex.is_match(text)))
    })
}

/// The number of a group, at least zero.
fn group(call: &Call, argument: usize, row: usize) -> Result<Option<usize>> {
    let Some(group) = integer(call, argument, row, 0)? else { return Ok(None) };
    match usize::try_from(group) {
        Ok(group) => Ok(Some(group)),
        Err(_) => exec_err!("{} takes the number of a group, not {group}", call.name()),
    }
}

/// The text of a group in the first match; empty without a match.
fn extract(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<Text>(|row| {
        let options = options(call, 3, row, Options::of_duckdb)?;
        let (group, parts) = (group(call, 2, row)?, parts(call, row, &mut patterns, options)?);
        let (Some(group), Some((text, regex))) = (group, parts) else { return Ok(None) };
        let found = match group {
            0 => regex.find(text),
            _ => regex.captures(text).and_then(|captures| captures.get(group)),
        };
        Ok(Some(found.map_or("", |found| found.as_str()).into()))
    })
}

fn extract_all(call: &Call) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<TextList>(|row| {
        let options = options(call, 3, row, Options::of_duckdb)?;
        let (group, parts) = (group(call, 2, row)?, parts(call, row, &mut patterns, options)?);
        let (Some(group), Some((text, regex))) = (group, parts) else { return Ok(None) };
        let found =
            |captures: regex::Captures<'_>| captures.get(group).map_or(0..0, |found| found.range());
        let ranges = regex.captures_iter(text).map(found);
        Ok(Some(ranges.map(|range| Some(Cow::Borrowed(&text[range]))).collect()))
    })
}

fn split_postgres(call: &Call) -> Result<ArrayRef> {
    split(call, Options::of_postgres)
}

fn split_duckdb(call: &Call) -> Result<ArrayRef> {
    split(call, Options::of_duckdb)
}

/// The parts of a text between matches. Empty matches at its ends do not count.
fn split(call: &Call, parse: fn(&str) -> Result<Options>) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    call.rows_of::<TextList>(|row| {
        let options = options(call, 2, row, parse)?;
        let parts = parts(call, row, &mut patterns, options)?;
        let Some((text, regex)) = parts else { return Ok(None) };
        let mut parts = Vec::new();
        let mut begin = 0;
        for found in regex.find_iter(text) {
            if !found.is_empty() || (0 < found.start() && found.end() < text.len()) {
                parts.push(Some(Cow::Borrowed(&text[begin..found.start()])));
                begin = found.end();
            }
        }
        parts.push(Some(Cow::Borrowed(&text[begin..])));
        Ok(Some(parts))
    })
}

/// The text with a backslash before each ASCII character that is no letter, digit or underscore.
fn escape(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| {
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            if letter.is_ascii() && !letter.is_ascii_alphanumeric() && letter != '_' {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        Ok(Some(escaped.into()))
    })
}

//! Similarities of texts, by bytes as in DuckDB.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::distance::check_steps;
use crate::scalar::{Call, Definition, Double, Kind, Overload, Text};

const TEXTS: &[Kind] = &[Kind::Text, Kind::Text];
const TEXTS_AND_CUTOFF: &[Kind] = &[Kind::Text, Kind::Text, Kind::Double];
/// Maximum number of steps of one comparison, which take a few seconds.
const STEPS_MAX: usize = 4_000_000_000;
/// Maximum number of bytes of a common prefix that count for Jaro-Winkler, and the weight of each.
const PREFIX_MAX: usize = 4;
const PREFIX_WEIGHT: f64 = 0.1;
/// The Jaro similarity above which a prefix counts.
const PREFIX_THRESHOLD: f64 = 0.7;

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("jaccard", &[Overload::new(TEXTS, Kind::Double, jaccard)]),
    Definition::new(
        "jaro_similarity",
        &[Overload::new(TEXTS_AND_CUTOFF, Kind::Double, jaro_rows).optional(1)],
    ),
    Definition::new(
        "jaro_winkler_similarity",
        &[Overload::new(TEXTS_AND_CUTOFF, Kind::Double, winkler_rows).optional(1)],
    ),
];

fn jaccard(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Double>(|left, right| {
        if left.is_empty() || right.is_empty() {
            return exec_err!("jaccard takes texts that are not empty");
        }
        let (left, right) = (bytes_of(left), bytes_of(right));
        let both = left.iter().zip(&right).filter(|(left, right)| **left && **right).count();
        let either = left.iter().zip(&right).filter(|(left, right)| **left || **right).count();
        Ok(Some(float(both) / float(either)))
    })
}

/// The bytes that occur in a text.
fn bytes_of(text: &str) -> [bool; 256] {
    let mut bytes = [false; 256];
    for byte in text.bytes() {
        bytes[usize::from(byte)] = true;
    }
    bytes
}

fn jaro_rows(call: &Call) -> Result<ArrayRef> {
    similarity_rows(call, jaro)
}

fn winkler_rows(call: &Call) -> Result<ArrayRef> {
    similarity_rows(call, winkler)
}

/// Similarities, and zero for those below the third argument.
fn similarity_rows(call: &Call, similarity: fn(&[u8], &[u8]) -> f64) -> Result<ArrayRef> {
    let compared = |left: &str, right: &str, cutoff: f64| {
        check_steps(call.name(), left.as_bytes(), right.as_bytes(), STEPS_MAX)?;
        let similarity = similarity(left.as_bytes(), right.as_bytes());
        Ok(Some(if similarity < cutoff { 0.0 } else { similarity }))
    };
    match call.len() {
        2 => call.map2::<Text, Text, Double>(|left, right| compared(left, right, 0.0)),
        _ => call.map3::<Text, Text, Double, Double>(compared),
    }
}

fn jaro(left: &[u8], right: &[u8]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 0.0;
    }
    let window = (left.len().max(right.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; right.len()];
    let mut matched = Vec::new();
    for (at, byte) in left.iter().enumerate() {
        let places = at.saturating_sub(window)..right.len().min(at + window + 1);
        if let Some(place) = places.into_iter().find(|&it| !taken[it] && right[it] == *byte) {
            taken[place] = true;
            matched.push(*byte);
        }
    }
    if matched.is_empty() {
        return 0.0;
    }
    let others = right.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(byte, _)| byte);
    let swapped = matched.iter().zip(others).filter(|(left, right)| left != right).count() / 2;
    let common = float(matched.len());
    (common / float(left.len())
        + common / float(right.len())
        + float(matched.len() - swapped) / common)
        / 3.0
}

fn winkler(left: &[u8], right: &[u8]) -> f64 {
    let jaro = jaro(left, right);
    if jaro <= PREFIX_THRESHOLD {
        return jaro;
    }
    let prefix = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    jaro + float(prefix.min(PREFIX_MAX)) * PREFIX_WEIGHT * (1.0 - jaro)
}

/// A count as a floating-point number: texts have less than 2^53 bytes.
fn float(count: usize) -> f64 {
    count as f64
}

//! Edit distances of texts, in bytes as in DuckDB.

use std::collections::HashMap;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use crate::scalar::{Call, Definition, Int, Kind, Overload, Text};

const TEXTS: &[Kind] = &[Kind::Text, Kind::Text];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("editdist3", &[Overload::new(TEXTS, Kind::Integer, levenshtein)]),
    Definition::new("damerau_levenshtein", &[Overload::new(TEXTS, Kind::Integer, damerau)]),
    Definition::new("hamming", &[Overload::new(TEXTS, Kind::Integer, hamming)])
        .alias(&["mismatches"]),
];

/// Maximum number of steps of one comparison, which take a few seconds.
const STEPS_MAX: usize = 4_000_000_000;
/// Maximum number of cells of the table of one comparison, which take 64 MiB.
const CELLS_MAX: usize = 16 << 20;

/// Returns an error if the product of the lengths of two texts exceeds `most`.
pub(super) fn check_steps(function: &str, left: &[u8], right: &[u8], most: usize) -> Result<()> {
    if left.len().saturating_mul(right.len().max(1)) <= most {
        return Ok(());
    }
    exec_err!(
        "{function} cannot compare texts of {} and {} bytes; compare shorter ones",
        left.len(),
        right.len()
    )
}

fn levenshtein(call: &Call) -> Result<ArrayRef> {
    let mut row = Vec::new();
    call.map2::<Text, Text, Int>(|left, right| {
        check_steps(call.name(), left.as_bytes(), right.as_bytes(), STEPS_MAX)?;
        count(edits(left.as_bytes(), right.as_bytes(), &mut row))
    })
}

/// The number of insertions, deletions and replacements that make `right` of `left`. `row` is a
/// buffer.
fn edits(left: &[u8], right: &[u8], row: &mut Vec<usize>) -> usize {
    row.clear();
    row.extend(0..=right.len());
    for (above, from) in left.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[right.len()]
}

fn damerau(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Int>(|left, right| {
        check_steps(call.name(), left.as_bytes(), right.as_bytes(), CELLS_MAX)?;
        count(edits_and_swaps(left.as_bytes(), right.as_bytes()))
    })
}

/// As [`edits`], and an exchange of two neighbors counts as one edit.
fn edits_and_swaps(left: &[u8], right: &[u8]) -> usize {
    let width = right.len() + 2;
    let far = left.len() + right.len();
    let mut table = vec![far; width * (left.len() + 2)];
    for row in 0..=left.len() {
        table[(row + 1) * width + 1] = row;
    }
    for column in 0..=right.len() {
        table[width + column + 1] = column;
    }
    // The last row in which a byte of `left` occurred.
    let mut last_rows: HashMap<u8, usize> = HashMap::new();
    for row in 1..=left.len() {
        let mut last_column = 0;
        for column in 1..=right.len() {
            let swap_row = last_rows.get(&right[column - 1]).copied().unwrap_or(0);
            let swap_column = last_column;
            let is_same = left[row - 1] == right[column - 1];
            if is_same {
                last_column = column;
            }
            let at = |row: usize, column: usize| table[row * width + column];
            let swapped =
                at(swap_row, swap_column) + (row - swap_row - 1) + 1 + (column - swap_column - 1);
            let least = (at(row, column) + usize::from(!is_same))
                .min(at(row + 1, column) + 1)
                .min(at(row, column + 1) + 1)
                .min(swapped);
            table[(row + 1) * width + column + 1] = least;
        }
        last_rows.insert(left[row - 1], row);
    }
    table[(left.len() + 1) * width + right.len() + 1]
}

fn hamming(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Int>(|left, right| {
        if left.len() != right.len() || left.is_empty() {
            return exec_err!(
                "{} takes texts of one length above zero, not of {} and {} bytes",
                call.name(),
                left.len(),
                right.len()
            );
        }
        count(left.bytes().zip(right.bytes()).filter(|(left, right)| left != right).count())
    })
}

fn count(number: usize) -> Result<Option<i64>> {
    Ok(i64::try_from(number).ok())
}

//! Ordering of the rows of a piece, by their prefixes and whole keys.

use datafusion::arrow::row::Rows;

use super::key::{SortKeys, shared_bytes, word};

/// Maximum number of rows of equal prefix that are sorted by comparing keys; more are sorted by a
/// new prefix, from the first bytes in which they differ.
const COMPARED_ROWS: usize = 4;

/// Returns the indexes of the rows in their order: the first `limit` of them, if there is a limit.
///
/// Rows of equal keys stay in input order.
pub(crate) fn order(
    keys: &SortKeys,
    prefixes: &[u64],
    encoded: Option<&Rows>,
    limit: Option<usize>,
) -> Vec<u32> {
    let mut entries: Vec<u128> =
        (0u32..).zip(prefixes).map(|(row, key)| entry(*key, row)).collect();
    entries.sort_unstable();
    if let Some(rows) = encoded {
        refine(&mut entries, rows, |prefix| keys.is_open(prefix));
    }
    let limit = limit.unwrap_or(entries.len());
    entries.truncate(limit);
    entries.into_iter().map(row_of).collect()
}

fn entry(prefix: u64, row: u32) -> u128 {
    u128::from(prefix) << 64 | u128::from(row)
}

#[allow(clippy::cast_possible_truncation, reason = "the row is the low half of an entry")]
fn row_of(entry: u128) -> u32 {
    entry as u32
}

#[allow(clippy::cast_possible_truncation, reason = "the prefix is the high half of an entry")]
fn prefix_of(entry: u128) -> u64 {
    (entry >> 64) as u64
}

/// Orders the rows of each open prefix by their whole keys.
fn refine(entries: &mut [u128], rows: &Rows, is_open: impl Fn(u64) -> bool + Copy) {
    for group in entries.chunk_by_mut(|left, right| prefix_of(*left) == prefix_of(*right)) {
        if group.len() > 1 && is_open(prefix_of(group[0])) {
            refine_group(group, rows);
        }
    }
}

fn refine_group(group: &mut [u128], rows: &Rows) {
    let key = |entry: &u128| rows.row(row_of(*entry) as usize).data();
    if group.len() <= COMPARED_ROWS {
        group.sort_unstable_by(|left, right| {
            key(left).cmp(key(right)).then_with(|| row_of(*left).cmp(&row_of(*right)))
        });
        return;
    }
    let first = key(&group[0]);
    let mut shared = first.len();
    let mut alike = true;
    for entry in group.iter() {
        let same = shared_bytes(first, key(entry));
        alike &= same == first.len() && key(entry).len() == same;
        shared = shared.min(same);
    }
    if alike {
        group.sort_unstable_by_key(|entry| row_of(*entry));
        return;
    }
    for entry in group.iter_mut() {
        let row = row_of(*entry);
        *entry = self::entry(word(&rows.row(row as usize).data()[shared..]), row);
    }
    group.sort_unstable();
    let progress = prefix_of(group[0]) != prefix_of(group[group.len() - 1]);
    if progress {
        refine(group, rows, |_| true);
    } else {
        // The keys differ only by their length. No key is a prefix of another, but the order must
        // not rely on that.
        let key = |entry: &u128| rows.row(row_of(*entry) as usize).data();
        group.sort_by(|left, right| key(left).cmp(key(right)));
    }
}

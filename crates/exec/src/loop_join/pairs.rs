//! Generator of the candidate pairs of a block and a batch for the join filter, in portions.

use std::ops::Range;

use datafusion::arrow::array::UInt32Array;

use super::range::{Bounds, Keys, Terms};

/// Maximum number of candidates examined per pair of a portion; most may belong to decided rows.
const EXAMINED_FACTOR: usize = 64;

/// Pairs of rows of a block of the left side and rows of a right batch.
pub(super) enum Pairs<'a> {
    /// Each row of `left`, from position `next` on, with the right rows 0 to `right` - 1.
    All { left: Vec<u32>, next: usize, right: u32 },
    /// Each row that has bounds with the rows whose keys lie within them.
    Within(Within<'a>),
}

/// Pairs of each row that has bounds and the rows of the other side whose keys lie within them.
pub(super) struct Within<'a> {
    keys: &'a Keys,
    bounds: &'a Bounds,
    /// True if the left rows have the keys.
    is_left_sorted: bool,
    /// The rows with bounds whose pairs are not formed yet.
    rows: Range<u32>,
    /// The row whose pairs are being formed, and the remaining positions of its range.
    current: (u32, Range<usize>),
}

impl<'a> Pairs<'a> {
    /// Forms the pairs of the rows of a block, `left` of which are undecided, and `right` rows,
    /// from the terms of both.
    pub(super) fn new(
        block: (u32, Option<&'a Terms>),
        left: impl FnOnce() -> Vec<u32>,
        right: (u32, Option<&'a Terms>),
    ) -> Self {
        let (keys, bounds, is_left_sorted, rows) = match (block, right) {
            ((_, Some(Terms::Keys(keys))), (rows, Some(Terms::Bounds(bounds)))) => {
                (keys, bounds, true, rows)
            }
            ((rows, Some(Terms::Bounds(bounds))), (_, Some(Terms::Keys(keys)))) => {
                (keys, bounds, false, rows)
            }
            _ => return Self::All { left: left(), next: 0, right: right.0 },
        };
        Self::Within(Within { keys, bounds, is_left_sorted, rows: 0..rows, current: (0, 0..0) })
    }

    /// Returns the next portion of pairs (left rows, right rows), about `limit` or fewer or none;
    /// `None` at the end. `skips_left` and `skips_right` return true for rows that need no further
    /// pair.
    pub(super) fn next(
        &mut self,
        limit: usize,
        skips_left: impl Fn(u32) -> bool,
        skips_right: impl Fn(u32) -> bool,
    ) -> Option<(UInt32Array, UInt32Array)> {
        match self {
            Self::All { left, next, right } => {
                let step = (limit / (*right as usize).max(1)).max(1);
                let chosen = left.get(*next..left.len().min(*next + step))?;
                if chosen.is_empty() {
                    return None;
                }
                *next += chosen.len();
                let each = chosen.iter().flat_map(|row| std::iter::repeat_n(*row, *right as usize));
                let all = chosen.iter().flat_map(|_| 0..*right);
                Some((UInt32Array::from_iter_values(each), UInt32Array::from_iter_values(all)))
            }
            Self::Within(within) if within.is_left_sorted => {
                let (right, left) = within.next(limit, skips_right, skips_left)?;
                Some((left, right))
            }
            Self::Within(within) => within.next(limit, skips_left, skips_right),
        }
    }
}

impl Within<'_> {
    /// Returns the next portion: rows with bounds, and the rows with keys that they are paired
    /// with.
    fn next(
        &mut self,
        limit: usize,
        skips: impl Fn(u32) -> bool,
        skips_key: impl Fn(u32) -> bool,
    ) -> Option<(UInt32Array, UInt32Array)> {
        let (mut with_bounds, mut with_keys) = (Vec::new(), Vec::new());
        let mut examined = 0;
        while with_bounds.len() < limit && examined < limit.saturating_mul(EXAMINED_FACTOR) {
            let (row, range) = &mut self.current;
            examined += 1;
            if range.start >= range.end || skips(*row) {
                let Some(next) = self.rows.next() else {
                    return (!with_bounds.is_empty())
                        .then(|| (with_bounds.into(), with_keys.into()));
                };
                self.current = (next, self.keys.within(self.bounds, next as usize));
                continue;
            }
            for position in range.by_ref().take(limit - with_bounds.len()) {
                examined += 1;
                let key = self.keys.row(position);
                if !skips_key(key) {
                    with_bounds.push(*row);
                    with_keys.push(key);
                }
            }
        }
        Some((with_bounds.into(), with_keys.into()))
    }
}

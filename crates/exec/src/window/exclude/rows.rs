//! The rows that a window frame excludes.

use std::ops::Range;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::partition;
use datafusion::common::Result;

/// The rows that EXCLUDE removes from a window frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// The current row.
    CurrentRow,
    /// The current row and its peers: the rows with the same ORDER BY keys.
    Group,
    /// The peers of the current row, but not itself.
    Ties,
}

impl Exclusion {
    /// Returns the exclusion as it is written after EXCLUDE.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CurrentRow => "CURRENT ROW",
            Self::Group => "GROUP",
            Self::Ties => "TIES",
        }
    }

    /// Returns the exclusion with this name, in any case; `None` if there is none.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [Self::CurrentRow, Self::Group, Self::Ties];
        all.into_iter().find(|exclusion| exclusion.name().eq_ignore_ascii_case(name))
    }

    /// Returns the parts of a frame that remain, in order; some may be empty. `peers` are the rows
    /// with the same keys as `row`, which is one of them.
    pub(super) fn remaining(
        self,
        frame: &Range<usize>,
        row: usize,
        peers: &Range<usize>,
    ) -> [Range<usize>; 3] {
        let (start, end) = (frame.start, frame.end.max(frame.start));
        let excluded = match self {
            Self::CurrentRow => row..row + 1,
            Self::Group | Self::Ties => peers.clone(),
        };
        let before = start..excluded.start.clamp(start, end);
        let behind = excluded.end.clamp(start, end)..end;
        let is_kept = self == Self::Ties && (start..end).contains(&row);
        let kept = if is_kept { row..row + 1 } else { before.end..before.end };
        [before, kept, behind]
    }
}

/// The rows of a partition in order, with their peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    row: usize,
    /// The groups of peers, once they are known.
    groups: Option<Vec<Range<usize>>>,
    /// Number of the group of the row.
    group: usize,
}

impl Peers {
    /// Returns the next row, and its peers. `keys` are the ORDER BY keys of all rows; without any,
    /// all rows are peers.
    ///
    /// # Errors
    /// If the keys cannot be compared.
    pub(super) fn next(&mut self, keys: &[ArrayRef], rows: usize) -> Result<(usize, Range<usize>)> {
        let groups = match &mut self.groups {
            Some(groups) => groups,
            none => none.insert(match keys.is_empty() {
                true => std::iter::once(0..rows).collect(),
                false => partition(keys)?.ranges(),
            }),
        };
        let row = self.row;
        self.row += 1;
        while groups.get(self.group).is_some_and(|group| group.end <= row) {
            self.group += 1;
        }
        Ok((row, groups.get(self.group).cloned().unwrap_or(row..row + 1)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Int64Array;

    use super::*;

    /// The rows that remain.
    fn remaining(exclusion: Exclusion, frame: Range<usize>, row: usize) -> Vec<usize> {
        exclusion.remaining(&frame, row, &(2..5)).into_iter().flatten().collect()
    }

    #[test]
    fn exclusions_take_rows_out_of_the_frame() {
        assert_eq!(remaining(Exclusion::CurrentRow, 0..6, 3), [0, 1, 2, 4, 5]);
        assert_eq!(remaining(Exclusion::Group, 0..6, 3), [0, 1, 5]);
        assert_eq!(remaining(Exclusion::Ties, 0..6, 3), [0, 1, 3, 5]);
    }

    #[test]
    fn rows_outside_of_the_frame_are_not_missed() {
        for exclusion in [Exclusion::CurrentRow, Exclusion::Group, Exclusion::Ties] {
            assert_eq!(remaining(exclusion, 5..7, 3), [5, 6], "{exclusion:?}");
            assert_eq!(remaining(exclusion, 0..2, 3), [0, 1], "{exclusion:?}");
            assert_eq!(remaining(exclusion, 3..3, 3), [0; 0], "{exclusion:?}");
        }
        assert_eq!(remaining(Exclusion::Ties, 4..7, 3), [5, 6]);
        assert_eq!(remaining(Exclusion::Group, 3..4, 3), [0; 0]);
        assert_eq!(remaining(Exclusion::Ties, 3..4, 3), [3]);
    }

    #[test]
    fn peers_have_equal_keys() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2, 3, 3]));
        let mut peers = Peers::default();
        let mut next = || peers.next(&[Arc::clone(&keys)], 5).expect("peers");
        assert_eq!([next(), next(), next()], [(0, 0..2), (1, 0..2), (2, 2..3)]);
        assert_eq!([next(), next()], [(3, 3..5), (4, 3..5)]);
        let mut all = Peers::default();
        assert_eq!(all.next(&[], 3).expect("peers"), (0, 0..3));
        assert_eq!(all.next(&[], 3).expect("peers"), (1, 0..3));
    }
}

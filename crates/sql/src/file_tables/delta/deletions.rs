//! Deleted rows of data files, as selections of the rows that are left.

use datafusion::arrow::array::BooleanBufferBuilder;
use datafusion::common::{Result, plan_err};
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use terrace_sys::size::to_usize;
use url::Url;

use super::data_files::DataFile;
use super::engine::LogEngine;
use super::errors::failed;

/// Bytes of a run of rows in a selection.
const RUN_BYTES: usize = 16;

/// The rows of a file that are left, and the bytes that they take in memory.
#[derive(Debug)]
pub(super) struct Left {
    /// The rows.
    pub(super) rows: RowSelection,
    /// Bytes in memory.
    pub(super) bytes: usize,
}

/// Reads the deletion vector of a file of `rows` rows, deleted ones included; `None` if the file
/// has no deleted rows.
///
/// # Errors
/// Errors of the vector and its file.
pub(super) fn left(
    name: &str,
    root: &Url,
    engine: &LogEngine,
    file: &DataFile,
    rows: u64,
) -> Result<Option<Left>> {
    let deleted = file.deletions.get_row_indexes(engine, root);
    let Some(deleted) = deleted.map_err(|error| failed(name, &error))? else { return Ok(None) };
    let is_beyond = deleted.last().is_some_and(|last| *last >= rows);
    if is_beyond || u64::try_from(deleted.len()).is_ok_and(|count| count != file.deleted) {
        return plan_err!(
            "cannot read Delta table {name}: the deletion vector of {} has {} rows up to {}, and \
             the log has {} of {rows}",
            file.path,
            deleted.len(),
            deleted.last().copied().unwrap_or_default(),
            file.deleted
        );
    }
    Ok(Some(selection(&deleted, to_usize(rows))))
}

/// The rows beside the deleted ones, which are in order: as runs if there are few, else as bits.
fn selection(deleted: &[u64], rows: usize) -> Left {
    let starts = deleted.windows(2).filter(|pair| pair[0] + 1 < pair[1]).count();
    let run_bytes = (starts + 1).saturating_mul(2 * RUN_BYTES);
    let bit_bytes = rows / 8;
    if run_bytes > bit_bytes {
        let mut bits = BooleanBufferBuilder::new(rows);
        bits.append_n(rows, true);
        deleted.iter().for_each(|row| bits.set_bit(to_usize(*row), false));
        return Left { rows: RowSelection::from_boolean_buffer(bits.finish()), bytes: bit_bytes };
    }
    let starts = std::iter::once(0).chain(deleted.iter().map(|row| to_usize(*row) + 1));
    let ends = deleted.iter().map(|row| to_usize(*row)).chain([rows]);
    let runs = starts.zip(ends).map(|(start, end)| start..end);
    Left { rows: RowSelection::from_consecutive_ranges(runs, rows), bytes: run_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(deleted: &[u64], rows: usize) -> Vec<usize> {
        let left = selection(deleted, rows).rows;
        let selectors: Vec<_> = left.into();
        let mut at = 0;
        let mut kept = vec![];
        for selector in selectors {
            if !selector.skip {
                kept.extend(at..at + selector.row_count);
            }
            at += selector.row_count;
        }
        assert_eq!(at, rows, "all rows are decided on");
        kept
    }

    #[test]
    fn rows_that_are_not_deleted_are_left() {
        for rows in [5, 10_000] {
            for deleted in [&[0][..], &[4], &[1, 2], &[0, 2, 4], &[0, 1, 2, 3, 4]] {
                let expected: Vec<usize> =
                    (0..rows).filter(|row| !deleted.contains(&(*row as u64))).collect();
                assert_eq!(kept(deleted, rows), expected, "{deleted:?} of {rows}");
            }
        }
        assert_eq!(kept(&[], 3), [0, 1, 2]);
        assert_eq!(kept(&[], 0), [0; 0]);
    }

    #[test]
    fn many_runs_are_bits() {
        let deleted: Vec<u64> = (0..10_000).step_by(2).collect();
        let left = selection(&deleted, 10_000);
        assert!(left.rows.as_mask().is_some());
        assert_eq!((left.bytes, left.rows.row_count()), (1250, 5000));
        assert!(selection(&[7], 10_000).rows.as_mask().is_none());
    }
}

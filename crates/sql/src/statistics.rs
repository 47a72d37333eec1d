//! What is known of segments, chunks and tables without reading them.
//!
//! Statistics are collected while a chunk is written: rows, nulls, minimum, maximum and an
//! estimate of distinct values per segment. They prune chunks, and they choose join orders.

mod bounds;
mod collect;
mod pruning;
mod views;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use crate::table::TableVersion;

pub use bounds::{BOUND_BYTES, Bound};
pub use collect::Collector;
pub use pruning::{ChunkPruning, predicate, prune};

/// What is known of the values of one segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentStatistics {
    /// Values, nulls among them.
    pub rows: usize,
    /// Nulls.
    pub nulls: usize,
    /// A value that none in the segment is less than; `None` when every value is null or the type
    /// has no order.
    pub min: Option<Bound>,
    /// A value that none in the segment is greater than; `None` as for the minimum.
    pub max: Option<Bound>,
    /// The estimated number of distinct values, nulls aside; `None` for nested types.
    pub distinct: Option<u64>,
}

/// Statistics of a version of a table for the planner.
pub(crate) fn of_version(version: &TableVersion) -> Statistics {
    let columns = version.schema().fields().len();
    // An empty table has no sketches: nothing has to be read for it.
    let distinct = if version.chunks.is_empty() { vec![] } else { version.distinct() };
    let distinct = |column: usize| distinct.get(column).copied().unwrap_or(0);
    let column_statistics: Vec<_> =
        (0..columns).map(|column| of_column(version, column, distinct(column))).collect();
    Statistics {
        num_rows: Precision::Exact(version.rows()),
        // Of neither the table nor its columns: the planner does not scale them by what joins
        // leave, takes those of all columns for those of the few that a scan projects, and would
        // rather compare such bytes than rows.
        total_byte_size: Precision::Absent,
        column_statistics,
    }
}

/// Statistics of a column whose sketch holds `sketched` distinct values.
fn of_column(version: &TableVersion, column: usize, sketched: u64) -> ColumnStatistics {
    let rows = version.rows();
    let segments = || version.chunks.iter().map(|chunk| &chunk.columns[column].statistics);
    let nulls: usize = segments().map(|segment| segment.nulls).sum();
    let data_type = version.schema().field(column).data_type();
    let mut statistics = ColumnStatistics::new_unknown();
    statistics.null_count = Precision::Exact(nulls);
    // A dictionary's bounds are of its values' type, which the planner takes for another column's.
    let dictionary = matches!(data_type, DataType::Dictionary(..));
    if !dictionary && nulls < rows {
        statistics.min_value = precision(bounds::least(segments()));
        statistics.max_value = precision(bounds::greatest(segments()));
    }
    // The sketch is that of the last commit: of a table that was dropped there is none. What the
    // column has is never less than one of its segments has.
    let greatest: Option<Vec<u64>> = segments().map(|segment| segment.distinct).collect();
    if let Some(greatest) = greatest {
        let distinct = saturate(greatest.into_iter().fold(sketched, u64::max));
        statistics.distinct_count = Precision::Inexact(distinct.min(rows - nulls));
    }
    statistics
}

/// A bound as the planner takes it.
fn precision(bound: Option<Bound>) -> Precision<ScalarValue> {
    match bound {
        Some(Bound { value, exact: true }) => Precision::Exact(value),
        Some(Bound { value, exact: false }) => Precision::Inexact(value),
        None => Precision::Absent,
    }
}

/// The values of one column of statistics, one per chunk, unknown ones as nulls.
fn column_of(
    values: impl Iterator<Item = Option<ScalarValue>>,
    data_type: &DataType,
) -> Option<ArrayRef> {
    let null = ScalarValue::try_from(data_type).ok()?;
    ScalarValue::iter_to_array(values.map(|value| value.unwrap_or_else(|| null.clone()))).ok()
}

fn saturate(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

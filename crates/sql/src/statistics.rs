//! Statistics of segments, chunks and tables, available without reading the data.
//!
//! Statistics are collected while a chunk is written: rows, nulls, minimum, maximum and an estimate
//! of distinct values per segment. Chunk pruning and join ordering use them.

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

/// Statistics of one segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentStatistics {
    /// Number of values, including nulls.
    pub rows: usize,
    /// Number of nulls.
    pub nulls: usize,
    /// Lower bound of all values; `None` if every value is null or the type has no order.
    pub min: Option<Bound>,
    /// Upper bound of all values; `None` as for the minimum.
    pub max: Option<Bound>,
    /// Estimated number of distinct values, without nulls; `None` for nested types.
    pub distinct: Option<u64>,
}

/// Returns the statistics of a table version for the planner.
pub(crate) fn of_version(version: &TableVersion) -> Statistics {
    let columns = version.schema().fields().len();
    // An empty table has no sketches, so nothing has to be read.
    let distinct = if version.chunks.is_empty() { vec![] } else { version.distinct() };
    let distinct = |column: usize| distinct.get(column).copied().unwrap_or(0);
    let column_statistics: Vec<_> =
        (0..columns).map(|column| of_column(version, column, distinct(column))).collect();
    Statistics {
        num_rows: Precision::Exact(version.rows()),
        // No byte sizes, neither of the table nor of its columns: the planner does not scale them
        // by the selectivity of joins, takes the size of all columns for that of the few that a
        // scan projects, and prefers comparing such sizes to comparing row counts.
        total_byte_size: Precision::Absent,
        column_statistics,
    }
}

/// Returns the statistics of a column whose sketch estimates `sketched` distinct values.
fn of_column(version: &TableVersion, column: usize, sketched: u64) -> ColumnStatistics {
    let rows = version.rows();
    let segments = || version.chunks.iter().map(|chunk| &chunk.columns[column].statistics);
    let nulls: usize = segments().map(|segment| segment.nulls).sum();
    let data_type = version.schema().field(column).data_type();
    let mut statistics = ColumnStatistics::new_unknown();
    statistics.null_count = Precision::Exact(nulls);
    // A dictionary's bounds have the type of its values, which the planner takes for another
    // column's.
    let dictionary = matches!(data_type, DataType::Dictionary(..));
    if !dictionary && nulls < rows {
        statistics.min_value = precision(bounds::least(segments()));
        statistics.max_value = precision(bounds::greatest(segments()));
    }
    // The sketch is that of the last commit; a dropped table has none. A column never has fewer
    // distinct values than one of its segments.
    let greatest: Option<Vec<u64>> = segments().map(|segment| segment.distinct).collect();
    if let Some(greatest) = greatest {
        let distinct = saturate(greatest.into_iter().fold(sketched, u64::max));
        statistics.distinct_count = Precision::Inexact(distinct.min(rows - nulls));
    }
    statistics
}

/// Converts a bound to the planner's form.
fn precision(bound: Option<Bound>) -> Precision<ScalarValue> {
    match bound {
        Some(Bound { value, exact: true }) => Precision::Exact(value),
        Some(Bound { value, exact: false }) => Precision::Inexact(value),
        None => Precision::Absent,
    }
}

/// Builds an array of one statistic of a column, one value per chunk, with null for unknown ones.
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

//! Statistics of a table, in the form that the planner reads.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use super::bounds::Bound;
use super::segment::{greatest, least};
use crate::chunk::Chunk;

/// Returns the statistics of all chunks of a table for the planner. `distinct` estimates the number
/// of distinct values of each column.
pub(crate) fn of_chunks(
    schema: &SchemaRef,
    chunks: &[Arc<Chunk>],
    distinct: impl FnOnce() -> Vec<u64>,
) -> Statistics {
    let columns = schema.fields().len();
    // An empty table has no sketches, so nothing has to be read.
    let distinct = if chunks.is_empty() { vec![] } else { distinct() };
    let distinct = |column: usize| distinct.get(column).copied().unwrap_or(0);
    let column_statistics = (0..columns).map(|column| {
        of_column(schema.field(column).data_type(), chunks, column, distinct(column))
    });
    Statistics {
        num_rows: Precision::Exact(rows_of(chunks)),
        // No byte sizes, neither of the table nor of its columns: the planner does not scale them
        // by the selectivity of joins, takes the size of all columns for that of the few that a
        // scan projects, and prefers comparing such sizes to comparing row counts.
        total_byte_size: Precision::Absent,
        column_statistics: column_statistics.collect(),
    }
}

fn rows_of(chunks: &[Arc<Chunk>]) -> usize {
    chunks.iter().map(|chunk| chunk.rows).sum()
}

/// Returns the statistics of a column whose sketch estimates `sketched` distinct values.
fn of_column(
    data_type: &DataType,
    chunks: &[Arc<Chunk>],
    column: usize,
    sketched: u64,
) -> ColumnStatistics {
    let rows = rows_of(chunks);
    let segments = || chunks.iter().map(|chunk| &chunk.columns[column].statistics);
    let nulls: usize = segments().map(|segment| segment.nulls).sum();
    let mut statistics = ColumnStatistics::new_unknown();
    statistics.null_count = Precision::Exact(nulls);
    // A dictionary's bounds have the type of its values, which the planner takes for another
    // column's.
    let dictionary = matches!(data_type, DataType::Dictionary(..));
    if !dictionary && nulls < rows {
        statistics.min_value = precision(least(segments()));
        statistics.max_value = precision(greatest(segments()));
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

fn saturate(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

//! Order in which a scan takes its chunks.

use std::cmp::Ordering;

use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;

use crate::chunk::Chunk;
use crate::statistics::SegmentStatistics;
use crate::table::TableVersion;

/// Chunk order by the bounds of a column: the smallest minimum first, or the largest maximum first.
/// A top-k operator above then finds its rows early, and its filter prunes the chunks that follow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkOrder {
    column: usize,
    descending: bool,
}

impl ChunkOrder {
    /// Returns the chunk order for a sort by `sort` of the output of `projection`. `None` unless
    /// the first sort key is a column of the table.
    pub(super) fn serving(sort: &[PhysicalSortExpr], projection: &ProjectionExprs) -> Option<Self> {
        let first = sort.first()?;
        let output = first.expr.downcast_ref::<Column>()?;
        let input = &projection.iter().nth(output.index())?.expr;
        let column = input.downcast_ref::<Column>()?.index();
        Some(Self { column, descending: first.options.descending })
    }

    fn compare(self, a: &Chunk, b: &Chunk) -> Ordering {
        let side = |statistics: &SegmentStatistics| match self.descending {
            true => statistics.max.as_ref().map(|bound| bound.value.clone()),
            false => statistics.min.as_ref().map(|bound| bound.value.clone()),
        };
        let value = |chunk: &Chunk| side(&chunk.columns[self.column].statistics);
        let ordering = match (value(a), value(b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            // Chunks without bounds come last in both directions.
            (None, None) => Ordering::Equal,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
        };
        if self.descending { ordering.reverse() } else { ordering }
    }
}

/// Returns the indices of all chunks of a version in the order in which a scan reads them: `order`,
/// or else the order of the table.
pub(super) fn sequence(version: &TableVersion, order: Option<ChunkOrder>) -> Vec<usize> {
    let mut sequence: Vec<usize> = (0..version.chunks.len()).collect();
    if let Some(order) = order {
        sequence.sort_by(|a, b| order.compare(&version.chunks[*a], &version.chunks[*b]));
    }
    sequence
}

//! Chunk pruning: finds the chunks that cannot hold a row that satisfies a filter.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};

use super::bounds::Bound;
use super::segment::SegmentStatistics;
use crate::canonical::Canonical;
use crate::chunk::Chunk;

/// Statistics of chunks of a table, in the form that DataFusion's pruning reads.
pub struct ChunkPruning<'a> {
    schema: &'a SchemaRef,
    chunks: &'a [Arc<Chunk>],
}

impl<'a> ChunkPruning<'a> {
    /// Wraps the statistics of `chunks` of a table with this schema.
    #[must_use]
    pub fn new(schema: &'a SchemaRef, chunks: &'a [Arc<Chunk>]) -> Self {
        Self { schema, chunks }
    }

    fn segments(&self, column: &Column) -> Option<impl Iterator<Item = &'a SegmentStatistics>> {
        let index = self.schema.index_of(&column.name).ok()?;
        Some(self.chunks.iter().map(move |chunk| &chunk.columns[index].statistics))
    }

    fn bounds(
        &self,
        column: &Column,
        side: impl Fn(&'a SegmentStatistics) -> &'a Option<Bound>,
    ) -> Option<ArrayRef> {
        let field = self.schema.field_with_name(&column.name).ok()?;
        let DataType::Dictionary(keys, values) = field.data_type() else {
            let values = self.segments(column)?.map(|s| side(s).as_ref().map(|b| b.value.clone()));
            return column_of(values, field.data_type());
        };
        let null = ScalarValue::try_from(values.as_ref()).ok()?;
        let wrapped = self.segments(column)?.map(|segment| {
            let value = side(segment).as_ref().map_or_else(|| null.clone(), |b| b.value.clone());
            Some(ScalarValue::Dictionary(keys.clone(), Box::new(value)))
        });
        column_of(wrapped, field.data_type())
    }

    fn counts(
        &self,
        column: &Column,
        count: impl Fn(&SegmentStatistics) -> usize,
    ) -> Option<ArrayRef> {
        let counts = self.segments(column)?.map(|segment| u64::try_from(count(segment)).ok());
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }
}

impl PruningStatistics for ChunkPruning<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |segment| &segment.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |segment| &segment.max)
    }

    fn num_containers(&self) -> usize {
        self.chunks.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.counts(column, |segment| segment.nulls)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.chunks.iter().map(|chunk| u64::try_from(chunk.rows).ok());
        Some(Arc::new(rows.collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Compiles a filter to a predicate over statistics, with the current state of dynamic filters.
///
/// # Errors
/// If statistics cannot decide the filter.
pub fn predicate(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<PruningPredicate> {
    let filter = snapshot_physical_expr(Arc::clone(filter))?;
    // Bounds are compared as numbers, regardless of the sign of a zero.
    let filter = filter.transform_up(|expr| {
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        let call = call.filter(|call| call.fun().inner().is::<Canonical>());
        Ok(match call.and_then(|call| call.args().first()) {
            Some(argument) => Transformed::yes(Arc::clone(argument)),
            None => Transformed::no(expr),
        })
    });
    PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(filter?.data)
}

/// Returns for each chunk true if it may hold a row that satisfies `filter`. A filter that
/// statistics cannot decide keeps every chunk.
#[must_use]
pub fn prune(
    filter: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    chunks: &[Arc<Chunk>],
) -> Vec<bool> {
    let kept = predicate(filter, schema)
        .and_then(|predicate| predicate.prune(&ChunkPruning::new(schema, chunks)));
    kept.unwrap_or_else(|error| {
        tracing::debug!(%error, "filter cannot prune chunks");
        vec![true; chunks.len()]
    })
}

/// Builds an array of one statistic of a column, one value per chunk, with null for unknown ones.
fn column_of(
    values: impl Iterator<Item = Option<ScalarValue>>,
    data_type: &DataType,
) -> Option<ArrayRef> {
    let null = ScalarValue::try_from(data_type).ok()?;
    ScalarValue::iter_to_array(values.map(|value| value.unwrap_or_else(|| null.clone()))).ok()
}

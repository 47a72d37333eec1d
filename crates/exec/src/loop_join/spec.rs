//! Compiled description of a join without keys: its filter, and the sources of its output columns.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};

use super::range::RangeFilter;
use crate::block::detach;

/// Source of a column of the output or of the join filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Left(usize),
    Right(usize),
    /// The mark: true if there is a match.
    Mark,
}

impl From<&ColumnIndex> for Source {
    fn from(column: &ColumnIndex) -> Self {
        match column.side {
            JoinSide::Left => Self::Left(column.index),
            JoinSide::Right => Self::Right(column.index),
            JoinSide::None => Self::Mark,
        }
    }
}

/// The inputs of a join, with its type, filter and output columns.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) left: Arc<dyn ExecutionPlan>,
    pub(super) right: Arc<dyn ExecutionPlan>,
    pub(super) join_type: JoinType,
    filter: Option<JoinFilter>,
    outputs: Vec<ColumnIndex>,
}

impl Inputs {
    /// Returns the inputs of a node; `None` if it is neither a nested-loop join nor a cross join.
    pub(super) fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let node = node.as_ref();
        let (left, right, join_type, filter, projection) =
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                let projection = join.projection().as_deref().map(<[usize]>::to_vec);
                (join.left(), join.right(), *join.join_type(), join.filter().cloned(), projection)
            } else {
                let join = node.downcast_ref::<CrossJoinExec>()?;
                (join.left(), join.right(), JoinType::Inner, None, None)
            };
        let (_, indices) = build_join_schema(&left.schema(), &right.schema(), &join_type);
        let outputs = match projection {
            Some(projection) => projection.iter().map(|index| indices[*index].clone()).collect(),
            None => indices,
        };
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        Some(Self { left, right, join_type, filter, outputs })
    }
}

/// Description of a join, without its state.
#[derive(Debug)]
pub(super) struct LoopSpec {
    pub(super) join_type: JoinType,
    pub(super) left_schema: SchemaRef,
    pub(super) schema: SchemaRef,
    pub(super) batch_size: usize,
    /// Bounds on a key of one side, if the filter has any.
    pub(super) range: Option<RangeFilter>,
    filter: Option<JoinFilter>,
    filter_sources: Vec<Source>,
    outputs: Vec<Source>,
}

/// The rows `rows` of a batch; as many null rows if there is no batch.
#[derive(Clone, Copy)]
pub(super) struct Picked<'a> {
    pub(super) batch: Option<&'a RecordBatch>,
    pub(super) rows: &'a UInt32Array,
}

impl<'a> Picked<'a> {
    /// Picks rows of a batch.
    pub(super) fn of(batch: &'a RecordBatch, rows: &'a UInt32Array) -> Self {
        Self { batch: Some(batch), rows }
    }
}

impl LoopSpec {
    pub(super) fn new(inputs: &Inputs, schema: SchemaRef, batch_size: usize) -> Self {
        let filter_columns = inputs.filter.iter().flat_map(|filter| filter.column_indices());
        Self {
            join_type: inputs.join_type,
            left_schema: inputs.left.schema(),
            schema,
            batch_size: batch_size.max(1),
            range: inputs.filter.as_ref().and_then(RangeFilter::of),
            filter: inputs.filter.clone(),
            filter_sources: filter_columns.map(Source::from).collect(),
            outputs: inputs.outputs.iter().map(Source::from).collect(),
        }
    }

    /// Returns true if left rows are emitted when all right rows have been seen.
    pub(super) fn emits_left(&self) -> bool {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
        matches!(self.join_type, Left | LeftSemi | LeftAnti | LeftMark | Full)
    }

    /// Returns true if pairs of rows are emitted.
    pub(super) fn emits_pairs(&self) -> bool {
        use JoinType::{Full, Inner, Left, Right};
        matches!(self.join_type, Inner | Left | Right | Full)
    }

    /// Returns true if left rows are emitted once, whatever the number of their matches.
    pub(super) fn emits_left_once(&self) -> bool {
        use JoinType::{LeftAnti, LeftMark, LeftSemi};
        matches!(self.join_type, LeftSemi | LeftAnti | LeftMark)
    }

    /// Returns true if right rows are emitted once, whatever the number of their matches.
    pub(super) fn emits_right_once(&self) -> bool {
        self.emits_right() && !self.emits_pairs()
    }

    /// Returns true if right rows are emitted depending on their having a match.
    pub(super) fn emits_right(&self) -> bool {
        use JoinType::{Full, Right, RightAnti, RightMark, RightSemi};
        matches!(self.join_type, Right | RightSemi | RightAnti | RightMark | Full)
    }

    /// Returns true if a left row, matched or not, is emitted at the end.
    pub(super) fn wants_left(&self, matched: bool) -> bool {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
        match self.join_type {
            Left | Full | LeftAnti => !matched,
            LeftSemi => matched,
            LeftMark => true,
            _ => false,
        }
    }

    /// Returns true if a right row, matched or not, is emitted after it was compared with every
    /// left row.
    pub(super) fn wants_right(&self, matched: bool) -> bool {
        use JoinType::{Full, Right, RightAnti, RightMark, RightSemi};
        match self.join_type {
            Right | Full | RightAnti => !matched,
            RightSemi => matched,
            RightMark => true,
            _ => false,
        }
    }

    /// Returns the positions of pairs that pass the filter; `None` if all do.
    pub(super) fn passing(
        &self,
        left: Picked<'_>,
        right: Picked<'_>,
    ) -> Result<Option<UInt32Array>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let columns = self.columns(&self.filter_sources, filter.schema(), left, right, None)?;
        let options = RecordBatchOptions::new().with_row_count(Some(left.rows.len()));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(filter.schema()), columns, &options)?;
        let passes = filter.expression().evaluate(&batch)?.into_array(batch.num_rows())?;
        let passes = passes.as_boolean();
        if passes.null_count() == 0 && passes.true_count() == passes.len() {
            return Ok(None);
        }
        let passed = (0..).zip(passes.iter()).filter(|(_, passes)| *passes == Some(true));
        Ok(Some(passed.map(|(pair, _)| pair).collect()))
    }

    /// Returns a batch of output rows; row `n` combines row `n` of both sides.
    pub(super) fn output(
        &self,
        left: Picked<'_>,
        right: Picked<'_>,
        marks: Option<&ArrayRef>,
    ) -> Result<RecordBatch> {
        let mut columns = self.columns(&self.outputs, &self.schema, left, right, marks)?;
        for (source, column) in self.outputs.iter().zip(&mut columns) {
            // A consumer that keeps the batch must not keep the left side's pages pinned.
            if matches!(source, Source::Left(_)) && left.batch.is_some() {
                *column = detach(Arc::clone(column))?;
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(left.rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn columns(
        &self,
        sources: &[Source],
        schema: &SchemaRef,
        left: Picked<'_>,
        right: Picked<'_>,
        marks: Option<&ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        let column = |(source, field): (&Source, &Arc<_>)| -> Result<ArrayRef> {
            let field: &datafusion::arrow::datatypes::Field = field;
            let (picked, column) = match source {
                Source::Left(column) => (left, *column),
                Source::Right(column) => (right, *column),
                Source::Mark => {
                    return match marks {
                        Some(marks) => Ok(Arc::clone(marks)),
                        None => datafusion::common::internal_err!("a mark of rows without one"),
                    };
                }
            };
            Ok(match picked.batch {
                Some(batch) => take(batch.column(column), picked.rows, None)?,
                None => new_null_array(field.data_type(), picked.rows.len()),
            })
        };
        sources.iter().zip(schema.fields()).map(column).collect()
    }
}

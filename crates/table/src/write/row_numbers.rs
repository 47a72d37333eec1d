//! Changes of rows that a plan returns by number: the position of a row in the table, from zero.
//!
//! A batch of the plan has these columns: the number of the row, the action for a MERGE, the new
//! values, and then those columns that RETURNING needs and that are not of the table.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch,
};
use datafusion::arrow::compute::{
    and_not, cast_with_options, concat_batches, filter_record_batch, not,
};
use datafusion::arrow::datatypes::{SchemaRef, UInt8Type, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;
use terrace_sys::size::{to_u64, to_usize};

use super::block::STRICT;
use super::columns::{put, with_columns, with_more_columns};
use super::returning::Returning;
use crate::error::SqlError;

/// The action of a MERGE on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAction {
    /// The row gets new values.
    Update,
    /// The row is removed.
    Delete,
    /// A row is added; it has no number.
    Insert,
}

impl RowAction {
    /// The value of the action in the column of actions.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Update => 0,
            Self::Delete => 1,
            Self::Insert => 2,
        }
    }
}

/// Kind of the statement, which decides about the columns that the plan returns.
#[derive(Clone)]
enum Change {
    Delete,
    /// New values of these columns of the table.
    Update(Arc<[usize]>),
    Merge(MergedColumns),
}

/// The columns of the table to which a MERGE assigns values.
#[derive(Clone, Debug)]
pub struct MergedColumns {
    /// Columns of the table that the plan returns values of: all of them, in order, if rows are
    /// inserted.
    pub columns: Arc<[usize]>,
    /// For each of them: true if updated rows get the value.
    pub is_updated: Arc<[bool]>,
}

impl Change {
    /// The number of columns before the new values.
    fn before_values(&self) -> usize {
        if matches!(self, Self::Merge(_)) { 2 } else { 1 }
    }

    /// The number of columns before those that only RETURNING needs.
    fn before_others(&self) -> usize {
        self.before_values()
            + match self {
                Self::Delete => 0,
                Self::Update(columns) | Self::Merge(MergedColumns { columns, .. }) => columns.len(),
            }
    }
}

/// The rows that a plan returns, in ascending order of their numbers; those without a number come
/// last. Of rows with the same number the first is used, or the statement refused if it is a MERGE.
pub struct ByNumber {
    rows: SendableRecordBatchStream,
    change: Change,
    /// Batch of the plan that was read, and whose rows were not all picked yet.
    current: Option<RecordBatch>,
    last: Option<u64>,
}

impl ByNumber {
    fn new(rows: SendableRecordBatchStream, change: Change) -> Self {
        Self { rows, change, current: None, last: None }
    }

    /// Selects the rows whose numbers `rows` returns, to be deleted.
    pub fn deleted(rows: SendableRecordBatchStream) -> Self {
        Self::new(rows, Change::Delete)
    }

    /// Selects the rows whose numbers `rows` returns, to be updated in the columns of the table
    /// with these indices.
    pub fn updated(rows: SendableRecordBatchStream, columns: Vec<usize>) -> Self {
        Self::new(rows, Change::Update(columns.into()))
    }

    /// Selects the rows of a MERGE, to be updated, deleted or inserted as the column of actions
    /// says.
    pub fn merged(rows: SendableRecordBatchStream, merged: MergedColumns) -> Self {
        Self::new(rows, Change::Merge(merged))
    }

    /// Returns true if all rows are deleted.
    pub(super) fn is_deletion(&self) -> bool {
        matches!(self.change, Change::Delete)
    }

    /// Returns the selected rows among the `rows` rows from number `first_row` on; `None` if there
    /// are none.
    pub(super) async fn pick(
        &mut self,
        first_row: u64,
        rows: usize,
    ) -> Result<Option<NumberedRows>, SqlError> {
        let end = first_row + to_u64(rows);
        let (mut offsets, mut parts) = (Vec::new(), Vec::new());
        while let Some(batch) = self.next_part().await? {
            let numbers = batch.column(0).as_primitive::<UInt64Type>();
            let numbers = &numbers.values()[..numbers.len() - numbers.null_count()];
            let here = numbers.partition_point(|number| *number < end);
            let mut kept = BooleanBufferBuilder::new(here);
            for number in &numbers[..here] {
                let is_new = self.last != Some(*number);
                if !is_new && matches!(self.change, Change::Merge(_)) {
                    return Err(SqlError::AffectedTwice);
                }
                kept.append(is_new);
                if is_new {
                    offsets.push(to_usize(number - first_row));
                    self.last = Some(*number);
                }
            }
            let part = batch.slice(0, here);
            parts.push(filter_record_batch(&part, &BooleanArray::new(kept.finish(), None))?);
            if here < batch.num_rows() {
                self.current = Some(batch.slice(here, batch.num_rows() - here));
                break;
            }
        }
        let Some(first) = parts.first().filter(|_| !offsets.is_empty()) else { return Ok(None) };
        let values = concat_batches(&first.schema(), &parts)?;
        let change = self.change.clone();
        Ok(Some(NumberedRows { offsets, values, change, used: 0, passed: 0 }))
    }

    async fn next_part(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if let Some(batch) = self.current.take() {
            return Ok(Some(batch));
        }
        while let Some(batch) = self.rows.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Returns the next rows to insert, once the rows of all chunks have been picked.
    ///
    /// # Errors
    /// If rows of the plan are in no chunk; errors of the plan.
    pub(super) async fn next_inserted(
        &mut self,
        schema: &SchemaRef,
        returning: Option<&Returning>,
    ) -> Result<Option<RecordBatch>, SqlError> {
        let Some(batch) = self.next_part().await? else { return Ok(None) };
        if batch.column(0).null_count() < batch.num_rows() {
            return Err(SqlError::Task("a row number is beyond the table".to_owned()));
        }
        let (first, end) = (self.change.before_values(), self.change.before_others());
        if end - first != schema.fields().len() {
            return Err(SqlError::Task("an inserted row has not all columns".to_owned()));
        }
        let values = batch.columns()[first..end].iter().zip(schema.fields());
        let values = values.map(|(value, field)| {
            Ok::<_, SqlError>(cast_with_options(value, field.data_type(), &STRICT)?)
        });
        let rows = with_columns(batch.num_rows(), values.collect::<Result<_, _>>()?, schema)?;
        if let Some(returning) = returning {
            returning.add(&with_more_columns(&rows, &batch.columns()[end..])?)?;
        }
        Ok(Some(rows))
    }
}

/// Selected rows of one chunk.
pub(super) struct NumberedRows {
    /// Their positions in the chunk, ascending.
    offsets: Vec<usize>,
    /// Their columns of the plan.
    values: RecordBatch,
    change: Change,
    /// Number of selected rows in previous blocks.
    used: usize,
    /// Number of rows of the chunk in previous blocks.
    passed: usize,
}

impl NumberedRows {
    pub(super) fn count(&self) -> usize {
        self.offsets.len()
    }

    pub(super) fn is_deletion(&self) -> bool {
        matches!(self.change, Change::Delete)
    }

    /// Applies the changes to the next block of the chunk.
    pub(super) fn apply(
        &mut self,
        block: &RecordBatch,
        schema: &SchemaRef,
        returning: Option<&Returning>,
    ) -> Result<RecordBatch, SqlError> {
        let (first, end) = (self.passed, self.passed + block.num_rows());
        let offsets = &self.offsets[self.used..];
        let offsets = &offsets[..offsets.partition_point(|offset| *offset < end)];
        let places = offsets.iter().map(|offset| offset - first);
        let mask = mask_of(block.num_rows(), places.clone());
        let values = self.values.slice(self.used, offsets.len());
        let removed = match &self.change {
            Change::Delete => Some(mask.clone()),
            Change::Update(_) => None,
            Change::Merge(_) => {
                let actions = values.column(1).as_primitive::<UInt8Type>().values();
                let is_deleted = |action: &u8| *action == RowAction::Delete.code();
                let deleted = places.zip(actions).filter(|(_, action)| is_deleted(action));
                Some(mask_of(block.num_rows(), deleted.map(|(place, _)| place)))
            }
        };
        self.used += offsets.len();
        self.passed = end;
        let changed = changed(block, &self.change, &values, &mask, removed.as_ref(), schema)?;
        if let Some(returning) = returning {
            let others = &values.columns()[self.change.before_others()..];
            returning.add(&with_more_columns(&filter_record_batch(&changed, &mask)?, others)?)?;
        }
        match removed {
            None => Ok(changed),
            Some(removed) => Ok(filter_record_batch(&changed, &not(&removed)?)?),
        }
    }
}

/// Returns a mask of `rows` rows that is set at `places`.
fn mask_of(rows: usize, places: impl Iterator<Item = usize>) -> BooleanArray {
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, false);
    places.for_each(|place| bits.set_bit(place, true));
    BooleanArray::new(bits.finish(), None)
}

/// Puts the new values of the rows of a mask into a block; rows to be removed keep theirs.
fn changed(
    block: &RecordBatch,
    change: &Change,
    values: &RecordBatch,
    mask: &BooleanArray,
    removed: Option<&BooleanArray>,
    schema: &SchemaRef,
) -> Result<RecordBatch, SqlError> {
    let columns = match change {
        Change::Delete => return Ok(block.clone()),
        Change::Update(columns) | Change::Merge(MergedColumns { columns, .. }) => columns,
    };
    let mut arrays: Vec<ArrayRef> = block.columns().to_vec();
    let (values, mask) = match (change, removed) {
        (Change::Merge(_), Some(removed)) => (updates(values)?, and_not(mask, removed)?),
        _ => (values.clone(), mask.clone()),
    };
    if values.num_rows() > 0 {
        let before = change.before_values();
        for (place, &column) in columns.iter().enumerate() {
            if !matches!(change, Change::Merge(merged) if !merged.is_updated[place]) {
                let values = values.column(before + place);
                arrays[column] = put(&arrays[column], &mask, values, schema.field(column))?;
            }
        }
    }
    with_columns(block.num_rows(), arrays, schema)
}

/// Returns the rows of `values` whose action is [`RowAction::Update`].
fn updates(values: &RecordBatch) -> Result<RecordBatch, SqlError> {
    let actions = values.column(1).as_primitive::<UInt8Type>().values().iter();
    let is_update = actions.map(|action| *action == RowAction::Update.code());
    Ok(filter_record_batch(values, &BooleanArray::from(is_update.collect::<Vec<_>>()))?)
}

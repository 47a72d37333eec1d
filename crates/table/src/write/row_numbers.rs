//! Rows that a plan selected by their numbers, in the order of the table.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch,
};
use datafusion::arrow::compute::{concat_batches, filter_record_batch, not};
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;
use terrace_sys::size::{to_u64, to_usize};

use super::columns::{put, with_columns};
use super::returning::Returning;
use crate::error::SqlError;

/// The rows that a plan returns: their numbers in the first column, in ascending order, and their
/// new values in the others. Of rows with the same number the first is used.
pub struct ByNumber {
    rows: SendableRecordBatchStream,
    /// Columns of the table that the values are for; `None` for a deletion.
    columns: Option<Arc<[usize]>>,
    /// Batch that was read and is not used up.
    current: Option<RecordBatch>,
    last: Option<u64>,
}

impl ByNumber {
    /// Selects rows to be deleted.
    pub fn deleted(rows: SendableRecordBatchStream) -> Self {
        Self { rows, columns: None, current: None, last: None }
    }

    /// Selects rows to be updated in these columns of the table.
    pub fn updated(rows: SendableRecordBatchStream, columns: Vec<usize>) -> Self {
        Self { rows, columns: Some(columns.into()), current: None, last: None }
    }

    /// Returns true if the rows are deleted.
    pub(super) fn is_deletion(&self) -> bool {
        self.columns.is_none()
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
            let numbers = batch.column(0).as_primitive::<UInt64Type>().values();
            let here = numbers.partition_point(|number| *number < end);
            let mut kept = BooleanBufferBuilder::new(here);
            for number in &numbers[..here] {
                let is_new = self.last != Some(*number);
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
        let columns = self.columns.clone();
        Ok(Some(NumberedRows { offsets, values, columns, used: 0, passed: 0 }))
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

    /// Checks that every row was in a chunk.
    pub(super) async fn finish(mut self) -> Result<(), SqlError> {
        match self.next_part().await? {
            None => Ok(()),
            Some(_) => Err(SqlError::Task("a row number is beyond the table".to_owned())),
        }
    }
}

/// Selected rows of one chunk.
pub(super) struct NumberedRows {
    /// Their positions in the chunk, ascending.
    offsets: Vec<usize>,
    /// Their numbers and new values.
    values: RecordBatch,
    columns: Option<Arc<[usize]>>,
    /// Number of them that were in previous blocks.
    used: usize,
    /// Number of rows of the chunk in previous blocks.
    passed: usize,
}

impl NumberedRows {
    pub(super) fn count(&self) -> usize {
        self.offsets.len()
    }

    pub(super) fn is_deletion(&self) -> bool {
        self.columns.is_none()
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
        let mut bits = BooleanBufferBuilder::new(block.num_rows());
        bits.append_n(block.num_rows(), false);
        offsets.iter().for_each(|offset| bits.set_bit(offset - first, true));
        let mask = BooleanArray::new(bits.finish(), None);
        let values = self.values.slice(self.used, offsets.len());
        self.used += offsets.len();
        self.passed = end;
        let Some(columns) = &self.columns else {
            if let Some(returning) = returning {
                returning.add(&filter_record_batch(block, &mask)?)?;
            }
            return Ok(filter_record_batch(block, &not(&mask)?)?);
        };
        let mut arrays: Vec<ArrayRef> = block.columns().to_vec();
        if values.num_rows() > 0 {
            for (place, &column) in columns.iter().enumerate() {
                let values = values.column(place + 1);
                arrays[column] = put(&arrays[column], &mask, values, schema.field(column))?;
            }
        }
        let changed = with_columns(block.num_rows(), arrays, schema)?;
        if let Some(returning) = returning {
            returning.add(&filter_record_batch(&changed, &mask)?)?;
        }
        Ok(changed)
    }
}

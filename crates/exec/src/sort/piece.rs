//! Pieces: rows of the input that are collected, and then sorted together.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, RecordBatch, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{interleave, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::Rows;

use super::key::SortKeys;
use super::order::order;
use crate::block::{BlockPlan, Lease};
use crate::error::{ExecError, Result};

/// Rows in the order of their keys, with the keys.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// All columns, or those that blocks store ([`SortKeys::stored`]).
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) prefixes: ScalarBuffer<u64>,
    pub(crate) encoded: Option<BinaryArray>,
}

/// Rows in input order.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    batches: Vec<RecordBatch>,
    keys: Vec<Vec<ArrayRef>>,
    leases: Vec<Lease>,
    rows: usize,
    bytes: usize,
}

impl Piece {
    /// Adds rows and their key columns; `lease` is for their bytes.
    pub(crate) fn push(&mut self, batch: RecordBatch, keys: Vec<ArrayRef>, lease: Option<Lease>) {
        self.rows += batch.num_rows();
        self.bytes += batch_bytes(&batch);
        self.batches.push(batch);
        self.keys.push(keys);
        self.leases.extend(lease);
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sorts the rows; with `limit` returns only that many first rows.
    pub(crate) fn sort(&self, keys: &SortKeys, limit: Option<usize>) -> Result<Sorted> {
        let columns: Vec<_> = (0..self.width()).collect();
        self.sort_columns(keys, limit, &columns)
    }

    /// As [`Piece::sort`], with only the columns that blocks store.
    pub(crate) fn sort_stored(&self, keys: &SortKeys, limit: Option<usize>) -> Result<Sorted> {
        self.sort_columns(keys, limit, &keys.stored(self.width()))
    }

    fn width(&self) -> usize {
        self.batches.first().map_or(0, RecordBatch::num_columns)
    }

    fn sort_columns(
        &self,
        keys: &SortKeys,
        limit: Option<usize>,
        columns: &[usize],
    ) -> Result<Sorted> {
        let all = keys.keys_of(&self.keys)?;
        let rows = order(keys, &all.prefixes, all.encoded.as_ref(), limit);
        let prefixes = rows.iter().map(|row| all.prefixes[*row as usize]).collect();
        let encoded = all.encoded.map(|encoded| pick_keys(&encoded, &rows)).transpose()?;
        Ok(Sorted { columns: self.pick(rows, columns)?, prefixes, encoded })
    }

    /// Returns the columns' values at `rows`.
    fn pick(&self, rows: Vec<u32>, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let [batch] = &self.batches[..] else { return self.pick_from_many(&rows, columns) };
        let rows = UInt32Array::from(rows);
        columns.iter().map(|column| Ok(take(batch.column(*column), &rows, None)?)).collect()
    }

    fn pick_from_many(&self, rows: &[u32], columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let mut places = Vec::with_capacity(self.rows);
        for (index, batch) in self.batches.iter().enumerate() {
            places.extend((0..batch.num_rows()).map(|row| (index, row)));
        }
        let picks: Vec<_> = rows.iter().map(|row| places[*row as usize]).collect();
        let pick = |column: &usize| {
            let arrays = self.batches.iter().map(|batch| batch.column(*column).as_ref());
            Ok(interleave(&arrays.collect::<Vec<_>>(), &picks)?)
        };
        columns.iter().map(pick).collect()
    }
}

impl Sorted {
    pub(crate) fn rows(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns all columns of the last row, for rows that have the columns that blocks store.
    ///
    /// # Errors
    /// If its key is damaged.
    pub(crate) fn last_row(&self, keys: &SortKeys) -> Result<Vec<ArrayRef>> {
        let last = self.rows().saturating_sub(1);
        let stored = self.columns.iter().map(|column| column.slice(last, 1)).collect();
        keys.restore(stored, self.encoded.iter().map(|keys| keys.value(last)))
    }

    /// Plans a block of these rows: the columns, the prefixes, and whole keys if there are any.
    pub(crate) fn plan(self) -> Result<BlockPlan> {
        let rows = self.rows();
        let mut arrays = self.columns;
        arrays.push(Arc::new(UInt64Array::new(self.prefixes, None)));
        arrays.extend(self.encoded.map(|keys| Arc::new(keys) as ArrayRef));
        BlockPlan::new(rows, &arrays)
    }
}

fn pick_keys(encoded: &Rows, rows: &[u32]) -> Result<BinaryArray> {
    let mut ends = Vec::with_capacity(rows.len() + 1);
    let mut bytes = Vec::with_capacity(encoded.size());
    ends.push(0);
    for row in rows {
        bytes.extend_from_slice(encoded.row(*row as usize).data());
        ends.push(
            i32::try_from(bytes.len()).map_err(|_| ExecError::ValueTooLong(bytes.len() as u64))?,
        );
    }
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok(BinaryArray::try_new(ends, Buffer::from_vec(bytes), None)?)
}

/// Returns the bytes that the rows of `batch` need, without other values in their buffers.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(array_bytes).sum()
}

/// Returns the bytes of the array's values, including those that views point to.
pub(crate) fn array_bytes(array: &ArrayRef) -> usize {
    let beside = match array.data_type() {
        DataType::Utf8View => array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    };
    let slice = array.to_data().get_slice_memory_size();
    slice.unwrap_or_else(|_| array.get_array_memory_size()) + beside
}

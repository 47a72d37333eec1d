//! Interface of cells, and their common parts.

use std::fmt::Debug;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, ToByteSlice as _};
use datafusion::common::Result;

use crate::rows::Slots;

/// The input of one aggregate from one batch.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Input<'a> {
    /// Arguments, or states to be merged; empty if the aggregate reads no value.
    pub(in super::super) columns: &'a [ArrayRef],
    /// Rows to take; a null excludes its row.
    pub(in super::super) filter: Option<&'a BooleanArray>,
    /// True if the columns are states.
    pub(in super::super) states: bool,
}

/// Rows of a batch that an aggregate takes: neither null nor filtered out.
#[derive(Clone, Debug)]
pub(super) enum Taken {
    All,
    Some(Vec<u32>),
}

/// Operations on the states of one aggregate, which lie in the rows of the groups.
///
/// Per batch: [`Cell::begin`], then [`Cell::start`] creates the new groups, then [`Cell::take`].
pub(in super::super) trait Cell: Send + Debug {
    /// Prepares for a batch before its groups are known.
    fn begin(&mut self, input: Input<'_>) -> Result<()>;

    /// Writes the initial state of a group created by the batch to the extra bytes of its row.
    fn start(&self, row: &mut [u8]);

    /// Writes the state of a group of which no row is taken to the extra bytes of its row.
    fn neutral(&self, row: &mut [u8]) {
        self.start(row);
    }

    /// Updates states with the values or states of a batch; slot `n` of `slots` is the group of
    /// row `n`.
    fn take(&mut self, slots: &mut Slots<'_>, input: Input<'_>) -> Result<()>;

    /// Returns the states of the groups in `slots`, in the columns of DataFusion's accumulator.
    fn states(&self, slots: &Slots<'_>) -> Result<Vec<ArrayRef>>;

    /// Returns the results of the groups in `slots`.
    fn evaluate(&self, slots: &Slots<'_>) -> Result<ArrayRef>;
}

/// Allocator of the extra bytes of a row; the field is the offset of the next free byte.
#[derive(Debug)]
pub(in super::super) struct Room(pub(in super::super) usize);

impl Room {
    /// Allocates a value of type `T`, aligned to its size or to eight bytes, whichever is less;
    /// returns its offset.
    pub(in super::super) fn take<T>(&mut self) -> usize {
        let align = size_of::<T>().clamp(1, 8);
        let offset = self.0.next_multiple_of(align);
        self.0 = offset + size_of::<T>();
        offset
    }
}

/// Writes a value into the extra bytes of a row.
pub(super) fn put<T: ArrowNativeType>(row: &mut [u8], offset: usize, value: T) {
    let bytes = std::slice::from_ref(&value).to_byte_slice();
    row[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// Returns a null buffer that is null where `seen` is zero; `None` if no element is zero.
pub(super) fn nulls(seen: &[u8]) -> Option<NullBuffer> {
    if seen.iter().all(|seen| *seen != 0) {
        return None;
    }
    Some(NullBuffer::new(BooleanBuffer::collect_bool(seen.len(), |row| seen[row] != 0)))
}

/// Returns the rows that are neither null nor filtered out.
pub(super) fn taken(nulls: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Taken {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0).map(NullBuffer::inner);
    let filter = filter.map(|filter| match filter.nulls() {
        Some(valid) => filter.values() & valid.inner(),
        None => filter.values().clone(),
    });
    let both = match (nulls, filter) {
        (None, None) => return Taken::All,
        (Some(nulls), None) => nulls.clone(),
        (None, Some(filter)) => filter,
        (Some(nulls), Some(filter)) => nulls & &filter,
    };
    Taken::Some(both.set_indices_u32().collect())
}

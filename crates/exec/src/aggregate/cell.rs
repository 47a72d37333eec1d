//! States of fixed size, kept in the row of their group.
//!
//! The operations are those of DataFusion's `GroupsAccumulator`s, so that results are the same to
//! the last bit as long as rows come in the same order.

mod avg;
mod choose;
mod count;
mod flag;
mod fold;

use std::fmt::Debug;

use datafusion::arrow::array::{Array, ArrayData, ArrayRef, BooleanArray, make_array};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::{Result, internal_err};

pub(super) use choose::{choose, counts_rows};

use crate::rows::Slots;

/// The arguments of one aggregate for one batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    /// Arguments, or states to be merged; empty if the aggregate looks at no value.
    pub(super) columns: &'a [ArrayRef],
    /// Rows to take; null is not.
    pub(super) filter: Option<&'a BooleanArray>,
    /// The columns are states.
    pub(super) states: bool,
}

/// Which rows of a batch an aggregate takes.
#[derive(Clone, Debug)]
pub(super) enum Taken {
    All,
    Some(Vec<u32>),
}

/// One aggregate's state in the rows.
///
/// Per batch: [`Cell::begin`], then new groups are made with [`Cell::start`], then [`Cell::take`].
pub(super) trait Cell: Send + Debug {
    /// Looks at a batch before its groups are known.
    fn begin(&mut self, input: Input<'_>) -> Result<()>;

    /// Writes the state of a group that the batch makes to the extra bytes of its row.
    fn start(&self, row: &mut [u8]);

    /// Writes the state of a group of which no row was taken.
    fn neutral(&self, row: &mut [u8]) {
        self.start(row);
    }

    /// Takes the batch into the states of its rows' groups.
    fn take(&mut self, slots: &mut Slots<'_>, input: Input<'_>) -> Result<()>;

    /// The states, as DataFusion's accumulator gives them.
    fn states(&self, slots: &Slots<'_>) -> Result<Vec<ArrayRef>>;

    /// The results.
    fn evaluate(&self, slots: &Slots<'_>) -> Result<ArrayRef>;
}

/// Hands out the extra bytes of a row.
#[derive(Debug)]
pub(super) struct Room(pub(super) usize);

impl Room {
    /// Room for one value, aligned in the row as well as eight bytes allow.
    pub(super) fn take<T>(&mut self) -> usize {
        let align = size_of::<T>().clamp(1, 8);
        let offset = self.0.next_multiple_of(align);
        self.0 = offset + size_of::<T>();
        offset
    }
}

/// Writes a value into the extra bytes of a row.
fn put<T: ArrowNativeType>(row: &mut [u8], offset: usize, value: T) {
    let bytes = std::slice::from_ref(&value).to_byte_slice();
    row[offset..offset + bytes.len()].copy_from_slice(bytes);
}

use datafusion::arrow::datatypes::ToByteSlice as _;

/// The values of an array of fixed width.
fn natives<T: ArrowNativeType>(array: &ArrayRef) -> Result<ScalarBuffer<T>> {
    if array.data_type().primitive_width() != Some(size_of::<T>()) {
        return internal_err!("an aggregate's state cannot take values of {}", array.data_type());
    }
    let data = array.to_data();
    Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}

/// An array of values of fixed width.
fn array<T: ArrowNativeType>(
    data_type: &DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let len = values.len();
    let buffer = ScalarBuffer::from(values).into_inner();
    let data = ArrayData::builder(data_type.clone()).len(len).add_buffer(buffer).nulls(nulls);
    Ok(make_array(data.build()?))
}

/// Nulls where a flag is not set; none if all are.
fn nulls(seen: &[u8]) -> Option<NullBuffer> {
    if seen.iter().all(|seen| *seen != 0) {
        return None;
    }
    Some(NullBuffer::new(BooleanBuffer::collect_bool(seen.len(), |row| seen[row] != 0)))
}

/// Which rows are neither null nor filtered out.
fn taken(nulls: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Taken {
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

//! The values of groups in order.

use datafusion::arrow::array::{Array, ArrayRef, ListArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;

use super::floats::canonical;

/// Number of values that are sorted at once, unless one group has more: bounds the bytes of sort
/// keys.
const VALUES_AT_ONCE: usize = 1 << 16;

/// The values of one group, in ascending order.
pub(super) struct Sorted<'a> {
    /// Positions of the values in the array of all values.
    pub(super) order: &'a [u32],
    keys: &'a Rows,
    /// Position of the first sort key.
    base: u32,
}

impl Sorted<'_> {
    /// Returns the position of the first value and the number of values of each run of equal
    /// values.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u32, usize)> {
        let key = |at: u32| self.keys.row((at - self.base) as usize);
        self.order
            .chunk_by(move |one, other| key(*one) == key(*other))
            .map(|run| (run[0], run.len()))
    }
}

/// Calls `each` with the group's number and its values in order, for every list. The values are
/// ordered by `keys`, an array with the positions of the lists' values.
///
/// # Errors
/// Those of `each`, and an error for values of a type without order.
pub(super) fn for_each_sorted(
    lists: &ListArray,
    keys: &ArrayRef,
    mut each: impl FnMut(usize, Sorted<'_>) -> Result<()>,
) -> Result<()> {
    let converter = RowConverter::new(vec![sort_field(keys.data_type())])?;
    let ends = lists.value_offsets();
    let at = |group: usize| position(ends[group]);
    let mut order = Vec::new();
    let mut group = 0;
    while group < lists.len() {
        let first = group;
        group += 1;
        while group < lists.len() && at(group + 1) - at(first) <= VALUES_AT_ONCE {
            group += 1;
        }
        let piece = keys.slice(at(first), at(group) - at(first));
        let rows = converter.convert_columns(&[canonical(&piece)])?;
        let base = u32::try_from(at(first)).unwrap_or(u32::MAX);
        for group in first..group {
            order.clear();
            order.extend((base..).skip(at(group) - at(first)).take(at(group + 1) - at(group)));
            // Equal values stay in the order of the input.
            order.sort_by(|one, other| {
                rows.row((one - base) as usize).cmp(&rows.row((other - base) as usize))
            });
            each(group, Sorted { order: &order, keys: &rows, base })?;
        }
    }
    Ok(())
}

/// Returns the order of values of a type: nulls within nested values are last, as in PostgreSQL.
pub(super) fn sort_field(data_type: &DataType) -> SortField {
    let options = SortOptions { descending: false, nulls_first: false };
    SortField::new_with_options(data_type.clone(), options)
}

fn position(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

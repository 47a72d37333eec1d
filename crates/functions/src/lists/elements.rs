//! Elements of a column of lists, as one array.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, Int64Array, ListArray, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

/// The type of a list with 32-bit offsets and the elements of another type of list; `None` for any
/// other type. NULL is a list of NULL.
pub(crate) fn list_type(of: &DataType) -> Option<DataType> {
    match of {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => Some(DataType::List(Arc::clone(field))),
        DataType::Null => Some(DataType::new_list(DataType::Null, true)),
        _ => None,
    }
}

/// The field of the elements of a list.
pub(crate) fn element_field(of: &DataType) -> Option<&FieldRef> {
    match of {
        DataType::List(field) => Some(field),
        _ => None,
    }
}

/// A column of lists.
pub(crate) struct Lists {
    lists: ListArray,
}

impl Lists {
    /// # Errors
    /// If the array is no list.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        let to = list_type(array.data_type());
        let to = to.ok_or_else(|| exec_datafusion_err!("{} is no list", array.data_type()))?;
        let lists = cast(array, &to)?;
        Ok(Self { lists: lists.as_list::<i32>().clone() })
    }

    pub(crate) fn nulls(&self) -> Option<&NullBuffer> {
        self.lists.nulls()
    }

    pub(crate) fn rows(&self) -> usize {
        self.lists.len()
    }

    /// All elements, of which those of a row are at [`Self::range`].
    pub(crate) fn values(&self) -> &ArrayRef {
        self.lists.values()
    }

    /// The places of the elements of a row; `None` for null.
    pub(crate) fn range(&self, row: usize) -> Option<Range<usize>> {
        if self.lists.is_null(row) {
            return None;
        }
        let offsets = self.lists.offsets().get(row..row + 2)?;
        let place = |at: usize| offsets.get(at).and_then(|&offset| usize::try_from(offset).ok());
        Some(place(0)?..place(1)?)
    }

    /// The elements of all rows, without elements that Arrow may store for null lists.
    pub(crate) fn flat(&self) -> Result<Flat> {
        let (mut places, mut rows, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(self.rows());
        for row in 0..self.rows() {
            let range = self.range(row).unwrap_or_default();
            lengths.push(range.len());
            for (position, place) in range.enumerate() {
                places.push(number(place)?);
                rows.push(number(row)?);
                positions.push(i64::try_from(position + 1).map_err(too_many)?);
            }
        }
        let values = take(self.values(), &UInt64Array::from(places), None)?;
        Ok(Flat { values, rows: rows.into(), positions: positions.into(), lengths })
    }
}

/// Elements of all lists of a column, one after another.
pub(crate) struct Flat {
    pub(crate) values: ArrayRef,
    /// The row of each element.
    pub(crate) rows: UInt64Array,
    /// The position of each element in its list, from 1.
    pub(crate) positions: Int64Array,
    /// The number of elements of each row.
    pub(crate) lengths: Vec<usize>,
}

pub(crate) fn number(place: usize) -> Result<u64> {
    u64::try_from(place).map_err(too_many)
}

fn too_many(_: std::num::TryFromIntError) -> DataFusionError {
    exec_datafusion_err!("a list has too many elements")
}

/// Builds a column of lists of these lengths from consecutive elements.
///
/// # Errors
/// If there are more than 2^31 elements.
pub(crate) fn lists_of(
    field: &FieldRef,
    lengths: impl IntoIterator<Item = usize>,
    values: ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    if i32::try_from(values.len()).is_err() {
        return Err(exec_datafusion_err!("the lists of a batch have more than 2^31 elements"));
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    let values = match values.len() {
        0 => new_empty_array(field.data_type()),
        _ => cast(&values, field.data_type())?,
    };
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls.cloned())?))
}

/// Builds a column of lists of the elements at these indices of `values`; `None` in place of an
/// index is a null element.
///
/// # Errors
/// As [`lists_of`].
pub(crate) fn lists_at(
    field: &FieldRef,
    rows: &[Option<Vec<Option<usize>>>],
    values: &ArrayRef,
) -> Result<ArrayRef> {
    let places = rows.iter().flatten().flatten();
    let places = places.map(|place| place.map(number).transpose());
    let places = places.collect::<Result<UInt64Array>>()?;
    let values = take(values, &places, None)?;
    let lengths = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len));
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    lists_of(field, lengths, values, Some(&nulls))
}

//! Columns of a batch in the form in which rows store them: dictionaries are decoded, and nested
//! values are encoded as bytes.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray,
    LargeBinaryBuilder,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::arrow::row::RowConverter;

use super::cells::nulls_of;
use super::layout::{Column, Kind, RowLayout};
use crate::{ExecError, Result};

/// Columns of one batch, prepared by [`RowLayout::prepare`].
#[derive(Debug)]
pub struct Columns {
    pub(super) columns: Vec<Prepared>,
    rows: usize,
}

/// One column, with its values as rows store them.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) data: ArrayData,
    pub(super) nulls: Option<NullBuffer>,
    /// The values of a variable column.
    pub(super) values: Option<Values>,
}

impl Columns {
    /// Returns the number of rows of the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the approximate bytes of variable values of `rows` rows.
    pub(super) fn variable_bytes(&self, rows: usize) -> usize {
        let values = self.columns.iter().filter_map(|column| column.values.as_ref());
        let bytes: usize = values.map(Values::bytes).sum();
        if rows >= self.rows { bytes } else { bytes / self.rows.max(1) * rows }
    }
}

impl RowLayout {
    /// Prepares columns for appending or comparing: once per batch.
    ///
    /// # Errors
    /// [`ExecError::Mismatch`] if the columns are not those of the layout; otherwise if a value
    /// cannot be converted.
    pub fn prepare(&self, columns: &[ArrayRef]) -> Result<Columns> {
        let layouts = &self.parts().columns;
        if columns.len() != layouts.len() {
            let text = format!("{} columns for a row of {}", columns.len(), layouts.len());
            return Err(ExecError::Mismatch(text));
        }
        for (column, layout) in columns.iter().zip(layouts) {
            if *column.data_type() != layout.data_type {
                let text = format!("a column of {} for {}", column.data_type(), layout.data_type);
                return Err(ExecError::Mismatch(text));
            }
        }
        self.prepare_first(columns)
    }

    /// As [`RowLayout::prepare`], for only the first columns of the layout, to compare with them.
    /// Columns of another type are cast.
    ///
    /// # Errors
    /// As [`RowLayout::prepare`].
    pub fn prepare_first(&self, columns: &[ArrayRef]) -> Result<Columns> {
        let layouts = &self.parts().columns;
        let rows = columns.first().map_or(0, |column| column.len());
        let prepare = |(layout, array): (&Column, &ArrayRef)| {
            if array.len() != rows {
                let text = format!("columns of {rows} and of {} rows", array.len());
                return Err(ExecError::Mismatch(text));
            }
            Prepared::new(layout, array)
        };
        let columns = layouts.iter().zip(columns).map(prepare).collect::<Result<_>>()?;
        Ok(Columns { columns, rows })
    }

    /// As [`RowLayout::prepare`], for a batch of `rows` rows without columns.
    #[must_use]
    pub fn no_columns(rows: usize) -> Columns {
        Columns { columns: Vec::new(), rows }
    }
}

impl Prepared {
    fn new(layout: &Column, array: &ArrayRef) -> Result<Self> {
        if *array.data_type() != layout.data_type && *array.data_type() != layout.stored {
            return Self::new(layout, &cast(array, &layout.stored)?);
        }
        let (array, nulls) = match &layout.kind {
            Kind::Encoded(encoding) => (encode(&encoding.converter, array)?, nulls_of(array)),
            _ if *array.data_type() != layout.stored => {
                let plain = cast(array, &layout.stored)?;
                let nulls = nulls_of(&plain);
                (plain, nulls)
            }
            _ => (Arc::clone(array), nulls_of(array)),
        };
        let values = match layout.kind {
            Kind::Variable | Kind::Encoded(_) => Some(Values::of(&array)?),
            _ => None,
        };
        Ok(Self { data: array.to_data(), nulls, values })
    }
}

/// Returns the encoding of every value, including nulls.
pub(super) fn encode(converter: &RowConverter, array: &ArrayRef) -> Result<ArrayRef> {
    let rows = converter.convert_columns(std::slice::from_ref(array))?;
    let bytes = rows.iter().map(|row| row.data().len()).sum();
    let mut values = LargeBinaryBuilder::with_capacity(array.len(), bytes);
    for row in &rows {
        values.append_value(row.data());
    }
    Ok(Arc::new(values.finish()))
}

/// The values of a variable column, in any of Arrow's formats.
#[derive(Debug)]
pub(super) enum Values {
    Small(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
}

impl Values {
    fn of(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Binary => Self::Small(array.as_binary().clone()),
            DataType::LargeBinary => Self::Large(array.as_binary().clone()),
            DataType::Utf8 => Self::Small(array.as_string::<i32>().clone().into()),
            DataType::LargeUtf8 => Self::Large(array.as_string::<i64>().clone().into()),
            DataType::Utf8View => Self::View(array.as_string_view().clone().to_binary_view()),
            DataType::BinaryView => Self::View(array.as_binary_view().clone()),
            other => return Err(ExecError::Type(other.clone())),
        })
    }

    /// Returns the approximate bytes of all values.
    fn bytes(&self) -> usize {
        match self {
            Self::Small(values) => {
                values.value_data().len().min(offsets_span(values.value_offsets()))
            }
            Self::Large(values) => {
                values.value_data().len().min(offsets_span(values.value_offsets()))
            }
            Self::View(values) => {
                values.lengths().filter(|len| *len > 12).map(|len| len as usize).sum()
            }
        }
    }
}

fn offsets_span<T: ArrowNativeType>(offsets: &[T]) -> usize {
    let ends = offsets.first().zip(offsets.last());
    ends.map_or(0, |(first, last)| last.as_usize().saturating_sub(first.as_usize()))
}

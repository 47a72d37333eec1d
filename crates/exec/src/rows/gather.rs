//! Gathering of columns from rows, in any order.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, LargeBinaryArray, OffsetSizeTrait};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::arrow::error::ArrowError;

use super::address::RowAddress;
use super::cells::{Pointers, array};
use super::collection::RowPages;
use super::layout::{Column, Encoding, Kind};
use super::value_slot::{INLINE_BYTES, Slot};
use crate::{ExecError, Result};

/// Maximum bytes of one buffer of a gathered view array: offsets have 32 bits.
const VIEW_BUFFER_BYTES_MAX: usize = 1 << 30;

/// Rows of pinned pages, borrowed for the duration of a batch.
///
/// A `Rows` is created once per batch and checks every address then, so that each column is a plain
/// loop over pointers.
#[derive(Debug)]
pub struct Rows<'a> {
    pub(super) pages: &'a RowPages,
    pub(super) pointers: Pointers<'a>,
    pub(super) has_none: bool,
}

impl RowPages {
    /// Resolves the rows at `addresses`; [`RowAddress::NONE`] is a row of nulls.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] for a row whose page is not pinned.
    pub fn resolve(&self, addresses: impl IntoIterator<Item = RowAddress>) -> Result<Rows<'_>> {
        let addresses = addresses.into_iter();
        let mut pointers = Pointers::with_capacity(self.layout.width(), addresses.size_hint().0);
        let mut has_none = false;
        for address in addresses {
            if pointers.push(&self.fixed, address.page(), address.row()) {
                continue;
            }
            if address != RowAddress::NONE {
                let (page, row) = (address.page(), address.row());
                return Err(ExecError::NotPinned { page, row, how: "" });
            }
            pointers.push_row(&self.null_row);
            has_none = true;
        }
        Ok(Rows { pages: self, pointers, has_none })
    }
}

impl<'a> Rows<'a> {
    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pointers.len()
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.pages.layout.columns()
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if any of the rows is [`RowAddress::NONE`].
    pub(super) fn has_none(&self) -> bool {
        self.has_none
    }

    /// Prefetches the rows into the processor's cache.
    pub fn prefetch(&self) {
        self.pointers.prefetch();
    }

    /// Returns for every row the word at `offset` of the operator's own bytes.
    ///
    /// # Panics
    /// If the layout has no eight bytes at `offset`.
    #[must_use]
    pub fn extras(&self, offset: usize) -> Vec<u64> {
        self.pointers.load_all(self.pages.layout.parts().extra_offset + offset)
    }

    /// Returns the word at `offset` of the operator's own bytes of row `row`.
    #[inline]
    #[must_use]
    pub fn extra(&self, row: usize, offset: usize) -> u64 {
        self.pointers.load(row, self.pages.layout.parts().extra_offset + offset)
    }

    /// Returns true if the flag at `offset` of the operator's own bytes of row `row` is set.
    #[must_use]
    pub fn flag(&self, row: usize, offset: usize) -> bool {
        self.pointers.flag(row, self.pages.layout.parts().extra_offset + offset)
    }

    /// Copies the values of a column into an array.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] if a variable page is not pinned; [`ExecError::Arrow`] if the
    /// values do not fit an array of the type, such as strings of 2 GiB in total or more than 256
    /// values of a dictionary with keys of a byte.
    pub fn gather(&self, column: usize) -> Result<ArrayRef> {
        let parts = self.pages.layout.parts();
        let Some(column_layout) = parts.columns.get(column) else {
            return Err(ExecError::Mismatch(format!("no column {column}")));
        };
        let values = match &column_layout.kind {
            Kind::Encoded(encoding) => return self.decode(column_layout, encoding),
            _ => self.values(column, column_layout)?,
        };
        if column_layout.stored == column_layout.data_type {
            return Ok(values);
        }
        Ok(cast(&values, &column_layout.data_type)?)
    }

    fn values(&self, index: usize, column: &Column) -> Result<ArrayRef> {
        let nulls = self.nulls(index, column);
        let (offset, len) = (column.offset, self.len());
        let native = |buffer| Ok(array(column.stored.clone(), len, vec![buffer], nulls.clone())?);
        match column.kind {
            Kind::Boolean => {
                let bytes = self.pointers.load_all::<u8>(offset);
                let bits = BooleanBuffer::collect_bool(len, |row| bytes[row] != 0);
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            Kind::Fixed(1) => native(Buffer::from_vec(self.pointers.load_all::<u8>(offset))),
            Kind::Fixed(2) => native(Buffer::from_vec(self.pointers.load_all::<u16>(offset))),
            Kind::Fixed(4) => native(Buffer::from_vec(self.pointers.load_all::<u32>(offset))),
            Kind::Fixed(8) => native(Buffer::from_vec(self.pointers.load_all::<u64>(offset))),
            Kind::Fixed(16) => native(Buffer::from_vec(self.pointers.load_all::<i128>(offset))),
            Kind::Fixed(32) => native(Buffer::from_vec(self.pointers.load_all::<i256>(offset))),
            Kind::Bytes(bytes) => {
                let mut values = Vec::with_capacity(len * bytes);
                for row in 0..len {
                    values.extend_from_slice(self.pointers.bytes(row, offset, bytes));
                }
                native(Buffer::from_vec(values))
            }
            Kind::Variable => self.variable(column, nulls),
            _ => Err(ExecError::Type(column.data_type.clone())),
        }
    }

    fn nulls(&self, index: usize, column: &Column) -> Option<NullBuffer> {
        if !self.has_none && !self.pages.has_nulls[index] {
            return None;
        }
        let bytes = self.pointers.load_all::<u8>(column.null_byte);
        let bits =
            BooleanBuffer::collect_bool(self.len(), |row| bytes[row] & column.null_mask == 0);
        Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
    }

    fn variable(&self, column: &Column, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        match column.stored {
            DataType::Utf8 | DataType::Binary => self.with_offsets::<i32>(column, nulls),
            DataType::LargeUtf8 | DataType::LargeBinary => self.with_offsets::<i64>(column, nulls),
            _ => self.views(column, nulls),
        }
    }

    /// Returns the value of a slot of row `row`.
    #[inline]
    pub(super) fn value(&self, row: usize, column: &Column, slot: Slot) -> Result<&'a [u8]> {
        let len = slot.len();
        if len <= INLINE_BYTES {
            return Ok(self.pointers.bytes(row, column.offset + 4, len));
        }
        let (page, offset) = slot.place();
        let value = self.pages.variable.slice(page, offset, len);
        value.ok_or(ExecError::NotPinned { page, row: offset, how: " (variable)" })
    }

    fn with_offsets<O: OffsetSizeTrait>(
        &self,
        column: &Column,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let slots = self.pointers.load_all::<i128>(column.offset);
        let total: usize = slots.iter().map(|slot| Slot(*slot).len()).sum();
        if O::from_usize(total).is_none() {
            return Err(ArrowError::OffsetOverflowError(total).into());
        }
        let mut bytes = Vec::with_capacity(total);
        let mut offsets = Vec::with_capacity(slots.len() + 1);
        offsets.push(O::default());
        for (row, slot) in slots.into_iter().enumerate() {
            bytes.extend_from_slice(self.value(row, column, Slot(slot))?);
            // The total fits, so every part of it does.
            offsets.push(O::usize_as(bytes.len()));
        }
        let buffers = vec![Buffer::from_vec(offsets), Buffer::from_vec(bytes)];
        Ok(array(column.stored.clone(), self.len(), buffers, nulls)?)
    }

    /// Gathers views: short values as they are in their slots, long ones into buffers of the
    /// array's own.
    fn views(&self, column: &Column, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let mut slots = self.pointers.load_all::<i128>(column.offset);
        let lengths = slots.iter().map(|slot| Slot(*slot).len());
        let total: usize = lengths.filter(|len| *len > INLINE_BYTES).sum();
        let mut buffers = Vec::new();
        let mut bytes = Vec::with_capacity(total.min(VIEW_BUFFER_BYTES_MAX));
        for (row, slot) in slots.iter_mut().enumerate() {
            let stored = Slot(*slot);
            if stored.len() <= INLINE_BYTES {
                continue;
            }
            if bytes.len() + stored.len() > VIEW_BUFFER_BYTES_MAX {
                buffers.push(Buffer::from_vec(std::mem::take(&mut bytes)));
            }
            let value = self.value(row, column, stored)?;
            *slot = stored.moved_to(buffers.len(), bytes.len());
            bytes.extend_from_slice(value);
        }
        if !bytes.is_empty() {
            buffers.push(Buffer::from_vec(bytes));
        }
        buffers.insert(0, Buffer::from_vec(slots));
        Ok(array(column.stored.clone(), self.len(), buffers, nulls)?)
    }

    fn decode(&self, column: &Column, encoding: &Encoding) -> Result<ArrayRef> {
        let values = self.with_offsets::<i64>(column, None)?;
        let values = values.to_data();
        let values = LargeBinaryArray::from(values);
        let parser = encoding.converter.parser();
        let rows = values.iter().map(|value| {
            // The row of nulls has no bytes.
            let value = value.filter(|value| !value.is_empty()).unwrap_or(&encoding.null);
            parser.parse(value)
        });
        let decoded = encoding.converter.convert_rows(rows)?;
        let Some(values) = decoded.into_iter().next() else {
            return Err(ExecError::Type(column.data_type.clone()));
        };
        if *values.data_type() == column.data_type {
            return Ok(values);
        }
        Ok(cast(&values, &column.data_type)?)
    }
}

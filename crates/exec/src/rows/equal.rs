//! Comparison of values in rows with values of arrays, column by column.

use datafusion::arrow::array::BinaryViewArray;
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{ArrowNativeType, i256};
use half::f16;

use super::cells::values;
use super::columns::{Columns, Prepared, Values};
use super::gather::Rows;
use super::layout::{Column, Float, Kind};
use super::value_slot::{INLINE_BYTES, Slot};
use crate::floats::Float as Number;
use crate::{ExecError, Result};

/// Definition of the equality of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Equality {
    /// True if a null equals a null; it never equals anything else.
    pub nulls: bool,
    /// True if floating-point numbers are compared as in SQL: the two zeros are equal, and all
    /// NaNs. Otherwise they are compared by their bits.
    pub floats: bool,
}

/// Operands of a comparison: row `n` of the rows with row `picks[n]` of the column.
struct Pairs<'a> {
    rows: &'a Rows<'a>,
    column: &'a Column,
    prepared: &'a Prepared,
    picks: &'a [u32],
}

impl Rows<'_> {
    /// Keeps in `selection` the `n` for which column `column` of row `n` equals row `picks[n]` of
    /// the same column of `columns`.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] if a variable page is not pinned.
    ///
    /// # Panics
    /// If an index in `selection` or `picks` is out of range.
    pub fn equal(
        &self,
        column: usize,
        columns: &Columns,
        picks: &[u32],
        equality: Equality,
        selection: &mut Vec<u32>,
    ) -> Result<()> {
        let layout = self.pages.layout.parts().columns.get(column);
        let (Some(layout), Some(prepared)) = (layout, columns.columns.get(column)) else {
            return Err(ExecError::Mismatch(format!("no column {column} to compare")));
        };
        let pairs = Pairs { rows: self, column: layout, prepared, picks };
        let nullable = prepared.nulls.is_some() || self.pages.has_nulls[column];
        if !nullable && !self.has_none() {
            return pairs.keep_equal(equality, selection);
        }
        let mut both_null = Vec::new();
        pairs.split_nulls(equality, selection, &mut both_null);
        pairs.keep_equal(equality, selection)?;
        if !both_null.is_empty() {
            selection.extend_from_slice(&both_null);
            selection.sort_unstable();
        }
        Ok(())
    }
}

impl Rows<'_> {
    /// Returns true if column `column` of every row surely equals, bit by bit, that of the same row
    /// of `columns`; for columns without nulls.
    ///
    /// Cheaper than [`Rows::equal`], and enough for rows that are nearly always equal.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] if a variable page is not pinned.
    pub fn all_equal(&self, column: usize, columns: &Columns) -> Result<bool> {
        let layout = self.pages.layout.parts().columns.get(column);
        let (Some(layout), Some(prepared)) = (layout, columns.columns.get(column)) else {
            return Err(ExecError::Mismatch(format!("no column {column} to compare")));
        };
        let nullable = prepared.nulls.is_some() || self.pages.has_nulls[column];
        if nullable || self.has_none() || columns.rows() != self.len() {
            return Ok(false);
        }
        let at = layout.offset;
        Ok(match (&layout.kind, &prepared.values) {
            (Kind::Fixed(1), _) => self.pointers.all_are(at, values::<u8>(&prepared.data)),
            (Kind::Fixed(2), _) => self.pointers.all_are(at, values::<u16>(&prepared.data)),
            (Kind::Fixed(4), _) => self.pointers.all_are(at, values::<u32>(&prepared.data)),
            (Kind::Fixed(8), _) => self.pointers.all_are(at, values::<u64>(&prepared.data)),
            (Kind::Fixed(16), _) => self.pointers.all_are(at, values::<i128>(&prepared.data)),
            (_, Some(Values::View(values))) => {
                let views = values.views().iter().enumerate();
                for (row, view) in views {
                    let slot: i128 = self.pointers.load(row, at);
                    let differ = slot ^ view.cast_signed();
                    if Slot(slot).len() <= INLINE_BYTES {
                        if differ != 0 {
                            return Ok(false);
                        }
                        continue;
                    }
                    if differ & i128::from(u64::MAX) != 0 {
                        return Ok(false);
                    }
                    let value = values.value(row);
                    if self.value(row, layout, Slot(slot))? != value {
                        return Ok(false);
                    }
                }
                true
            }
            _ => false,
        })
    }
}

/// Keeps the rows that are `equal`, in order, branch-free; nothing is moved while all are equal.
#[inline]
fn keep(selection: &mut Vec<u32>, mut equal: impl FnMut(usize) -> bool) {
    let unequal = selection.iter().position(|n| !equal(*n as usize));
    let Some(mut kept) = unequal else { return };
    for index in kept + 1..selection.len() {
        let n = selection[index];
        selection[kept] = n;
        kept += usize::from(equal(n as usize));
    }
    selection.truncate(kept);
}

impl Pairs<'_> {
    /// Leaves pairs without a null in `selection`; pairs that are null on both sides go to `both`.
    fn split_nulls(&self, equality: Equality, selection: &mut Vec<u32>, both: &mut Vec<u32>) {
        let nulls = self.prepared.nulls.as_ref();
        keep(selection, |n| {
            let byte: u8 = self.rows.pointers.load(n, self.column.null_byte);
            let null = byte & self.column.null_mask != 0;
            let other = nulls.is_some_and(|nulls| nulls.is_null(self.picks[n] as usize));
            if null && other && equality.nulls {
                // Positions come from a selection of 32 bits.
                both.push(u32::try_from(n).unwrap_or(u32::MAX));
            }
            !null && !other
        });
    }

    fn keep_equal(&self, equality: Equality, selection: &mut Vec<u32>) -> Result<()> {
        match (self.column.float.filter(|_| equality.floats), &self.column.kind) {
            (Some(Float::Half), _) => self.same::<f16>(selection, Number::is_same),
            (Some(Float::Single), _) => self.same::<f32>(selection, Number::is_same),
            (Some(Float::Double), _) => self.same::<f64>(selection, Number::is_same),
            (None, Kind::Fixed(1)) => self.same::<u8>(selection, |a, b| a == b),
            (None, Kind::Fixed(2)) => self.same::<u16>(selection, |a, b| a == b),
            (None, Kind::Fixed(4)) => self.same::<u32>(selection, |a, b| a == b),
            (None, Kind::Fixed(8)) => self.same::<u64>(selection, |a, b| a == b),
            (None, Kind::Fixed(16)) => self.same::<i128>(selection, |a, b| a == b),
            (None, Kind::Fixed(32)) => self.same::<i256>(selection, |a, b| a == b),
            (None, Kind::Boolean) => self.same_booleans(selection),
            (None, Kind::Bytes(bytes)) => self.same_bytes(*bytes, selection),
            (None, Kind::Variable | Kind::Encoded(_)) => return self.same_values(selection),
            (None, Kind::Fixed(_)) => {
                return Err(ExecError::Type(self.column.data_type.clone()));
            }
        }
        Ok(())
    }

    fn same<T: ArrowNativeType>(&self, selection: &mut Vec<u32>, equal: impl Fn(T, T) -> bool) {
        let values = values::<T>(&self.prepared.data);
        let pointers = &self.rows.pointers;
        let offset = self.column.offset;
        keep(selection, |n| equal(pointers.load(n, offset), values[self.picks[n] as usize]));
    }

    fn same_booleans(&self, selection: &mut Vec<u32>) {
        let data = &self.prepared.data;
        let bits = BooleanBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
        keep(selection, |n| {
            let byte: u8 = self.rows.pointers.load(n, self.column.offset);
            (byte != 0) == bits.value(self.picks[n] as usize)
        });
    }

    fn same_bytes(&self, bytes: usize, selection: &mut Vec<u32>) {
        let data = &self.prepared.data;
        let values = &data.buffers()[0].as_slice()[data.offset() * bytes..];
        keep(selection, |n| {
            let from = self.picks[n] as usize * bytes;
            let value = self.rows.pointers.bytes(n, self.column.offset, bytes);
            *value == values[from..from + bytes]
        });
    }

    fn same_values(&self, selection: &mut Vec<u32>) -> Result<()> {
        match &self.prepared.values {
            Some(Values::Small(values)) => self.same_as(selection, |row| values.value(row)),
            Some(Values::Large(values)) => self.same_as(selection, |row| values.value(row)),
            Some(Values::View(values)) => self.same_views(selection, values),
            None => Err(ExecError::Type(self.column.data_type.clone())),
        }
    }

    /// Compares slots with views. They differ only in the location of a long value: short values
    /// are compared as one word, and long ones mostly differ in their first half.
    fn same_views(&self, selection: &mut Vec<u32>, values: &BinaryViewArray) -> Result<()> {
        let views = values.views();
        let mut failed = Ok(());
        keep(selection, |n| {
            let slot: i128 = self.rows.pointers.load(n, self.column.offset);
            let row = self.picks[n] as usize;
            let differ = slot ^ views[row].cast_signed();
            let half = differ & i128::from(u64::MAX);
            if half != 0 || Slot(slot).len() <= INLINE_BYTES {
                return differ == 0;
            }
            match self.rows.value(n, self.column, Slot(slot)) {
                Ok(own) => own == values.value(row),
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        failed
    }

    fn same_as<'v>(
        &self,
        selection: &mut Vec<u32>,
        value: impl Fn(usize) -> &'v [u8],
    ) -> Result<()> {
        let mut failed = Ok(());
        keep(selection, |n| {
            let slot: i128 = self.rows.pointers.load(n, self.column.offset);
            let (slot, value) = (Slot(slot), value(self.picks[n] as usize));
            if slot.len() != value.len() {
                return false;
            }
            if value.len() > INLINE_BYTES && !slot.starts_like(value) {
                return false;
            }
            match self.rows.value(n, self.column, slot) {
                Ok(own) => own == value,
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        failed
    }
}

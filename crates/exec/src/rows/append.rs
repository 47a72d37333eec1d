//! Appending of rows: column by column, a few thousand bytes of rows at a time.

use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{ArrowNativeType, ToByteSlice, i256};
use terrace_sys::size::to_u64;

use super::address::RowAddress;
use super::cells::values;
use super::collection::RowPages;
use super::columns::{Columns, Prepared, Values};
use super::gather::Rows;
use super::layout::{Column, Kind};
use super::value_slot::{INLINE_BYTES, Slot, inline_slot, long_slot};
use crate::{ExecError, Result};

/// Bytes of rows that are written column by column before the next ones: they stay in the L1 cache
/// meanwhile.
const CHUNK_BYTES: usize = 16 << 10;

/// Rows of a batch: a range, or selected ones.
#[derive(Clone, Copy, Debug)]
enum Picks<'a> {
    Range(usize, usize),
    Some(&'a [u32]),
}

impl Picks<'_> {
    /// Calls `f` with each row's position among the picked ones and in the batch.
    #[inline]
    fn for_each(self, mut f: impl FnMut(usize, usize)) {
        match self {
            Self::Range(from, to) => (from..to).enumerate().for_each(|(n, row)| f(n, row)),
            Self::Some(rows) => rows.iter().enumerate().for_each(|(n, row)| f(n, *row as usize)),
        }
    }
}

impl RowPages {
    /// Appends rows of a batch: all, or those of `selection`. `hashes`, indexed by row of the
    /// batch, are written to the first eight of the operator's own bytes of each row. The addresses
    /// of the new rows are appended to `addresses`.
    ///
    /// # Errors
    /// [`ExecError::ValueTooLong`], and [`ExecError::Pool`] if the pool has no page left. Rows
    /// appended before that stay.
    pub fn append(
        &mut self,
        columns: &Columns,
        selection: Option<&[u32]>,
        hashes: Option<&[u64]>,
        addresses: Option<&mut Vec<RowAddress>>,
    ) -> Result<()> {
        let extras = hashes.as_slice();
        self.append_with(columns, selection, extras, addresses)
    }

    /// As [`RowPages::append`], with any number of words for the operator's own bytes: element `n`
    /// of `extras` has word `n` of every row of the batch.
    ///
    /// # Errors
    /// As [`RowPages::append`].
    pub fn append_with(
        &mut self,
        columns: &Columns,
        selection: Option<&[u32]>,
        extras: &[&[u64]],
        mut addresses: Option<&mut Vec<RowAddress>>,
    ) -> Result<()> {
        let count = selection.map_or(columns.rows(), <[u32]>::len);
        let chunk_rows = (CHUNK_BYTES / self.layout.width()).max(64);
        let mut from = 0;
        while from < count {
            if self.room_for_rows() == 0 {
                self.add_fixed()?;
            }
            let page = self.fixed.len() - 1;
            let rows = self.room_for_rows().min(count - from).min(chunk_rows);
            let first = self.fixed.used(page);
            let picks = match selection {
                Some(selection) => Picks::Some(&selection[from..from + rows]),
                None => Picks::Range(from, from + rows),
            };
            self.write_chunk(columns, picks, extras, rows)?;
            self.fixed.set_used(page, first + rows);
            self.parts[page].variable.end = self.variable.len();
            self.rows += to_u64(rows);
            if let Some(addresses) = &mut addresses {
                addresses.extend((first..first + rows).map(|row| RowAddress::new(page, row)));
            }
            from += rows;
        }
        Ok(())
    }

    /// Appends the rows `picks` of `rows`, which are of another collection of the same layout,
    /// including the operator's own bytes.
    ///
    /// # Errors
    /// As [`RowPages::append`]; [`ExecError::Mismatch`] for rows of another layout.
    pub fn append_rows(&mut self, rows: &Rows<'_>, picks: &[u32]) -> Result<()> {
        let layout = self.layout.clone();
        let width = layout.width();
        if rows.pages.layout.width() != width {
            return Err(ExecError::Mismatch(format!("rows of another width than {width}")));
        }
        for (own, other) in self.has_nulls.iter_mut().zip(&rows.pages.has_nulls) {
            *own |= other;
        }
        let mut from = 0;
        while from < picks.len() {
            if self.room_for_rows() == 0 {
                self.add_fixed()?;
            }
            let page = self.fixed.len() - 1;
            let count = self.room_for_rows().min(picks.len() - from);
            let picks = &picks[from..from + count];
            let to = self.next_rows(count)?.chunks_exact_mut(width);
            for (to, pick) in to.zip(picks) {
                to.copy_from_slice(rows.pointers.bytes(*pick as usize, 0, width));
            }
            for column in layout.parts().columns.iter().filter(|column| column.is_variable()) {
                self.move_values(rows, picks, column)?;
            }
            let first = self.fixed.used(page);
            self.fixed.set_used(page, first + count);
            self.parts[page].variable.end = self.variable.len();
            self.rows += to_u64(count);
            from += count;
        }
        Ok(())
    }

    /// Copies the long values of rows that were just copied, and updates their slots.
    fn move_values(&mut self, rows: &Rows<'_>, picks: &[u32], column: &Column) -> Result<()> {
        let width = self.layout.width();
        for (n, pick) in picks.iter().enumerate() {
            let slot = Slot(rows.pointers.load(*pick as usize, column.offset));
            if slot.len() <= INLINE_BYTES {
                continue;
            }
            let value = rows.value(*pick as usize, column, slot)?;
            let slot = self.place_long(value)?;
            let at = n * width + column.offset;
            self.next_rows(n + 1)?[at..at + 16].copy_from_slice(&slot.to_le_bytes());
        }
        Ok(())
    }

    fn write_chunk(
        &mut self,
        columns: &Columns,
        picks: Picks<'_>,
        extras: &[&[u64]],
        rows: usize,
    ) -> Result<()> {
        let layout = self.layout.clone();
        let parts = layout.parts();
        for (index, (column, prepared)) in parts.columns.iter().zip(&columns.columns).enumerate() {
            if let Some(values) = &prepared.values {
                let slots = self.place_values(values, prepared, picks, rows)?;
                store(
                    self.next_rows(rows)?,
                    parts.width,
                    column.offset,
                    &slots,
                    Picks::Range(0, rows),
                );
            } else {
                write_fixed(self.next_rows(rows)?, parts.width, column, prepared, picks)?;
            }
            if let Some(nulls) = &prepared.nulls {
                self.has_nulls[index] = true;
                let rows = self.next_rows(rows)?;
                picks.for_each(|n, row| {
                    if nulls.is_null(row) {
                        rows[n * parts.width + column.null_byte] |= column.null_mask;
                    }
                });
            }
        }
        for (nth, words) in extras.iter().enumerate() {
            let offset = parts.extra_offset + nth * 8;
            store(self.next_rows(rows)?, parts.width, offset, words, picks);
        }
        Ok(())
    }

    /// Returns the bytes of the next `rows` rows of the last page.
    fn next_rows(&mut self, rows: usize) -> Result<&mut [u8]> {
        let width = self.layout.width();
        let page = self.fixed.len() - 1;
        let row = self.fixed.used(page);
        let slice = self.fixed.slice_mut(page, row * width, rows * width);
        slice.ok_or(ExecError::NotPinned { page, row, how: " for writing" })
    }

    /// Copies long values to variable pages; returns the slots of all values.
    fn place_values(
        &mut self,
        values: &Values,
        prepared: &Prepared,
        picks: Picks<'_>,
        rows: usize,
    ) -> Result<Vec<i128>> {
        let mut slots = vec![0_i128; rows];
        let nulls = prepared.nulls.as_ref();
        let mut failed = Ok(());
        let mut place = |n: usize, row: usize, value: &[u8]| {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                match self.place_value(value) {
                    Ok(slot) => slots[n] = slot,
                    Err(error) => failed = Err(error),
                }
            }
        };
        match values {
            Values::Small(values) => picks.for_each(|n, row| place(n, row, values.value(row))),
            Values::Large(values) => picks.for_each(|n, row| place(n, row, values.value(row))),
            Values::View(values) => picks.for_each(|n, row| place(n, row, values.value(row))),
        }
        failed.map(|()| slots)
    }

    #[inline]
    fn place_value(&mut self, value: &[u8]) -> Result<i128> {
        if value.len() <= INLINE_BYTES {
            return Ok(inline_slot(value));
        }
        self.place_long(value)
    }

    fn place_long(&mut self, value: &[u8]) -> Result<i128> {
        if self.room_for_bytes() < value.len() {
            self.add_variable(value.len())?;
        }
        let page = self.variable.len() - 1;
        let offset = self.variable.used(page);
        let room = self.variable.slice_mut(page, offset, value.len());
        let Some(room) = room else {
            return Err(ExecError::NotPinned { page, row: 0, how: " for writing" });
        };
        room.copy_from_slice(value);
        self.variable.set_used(page, offset + value.len());
        Ok(long_slot(value, page, offset))
    }
}

fn write_fixed(
    rows: &mut [u8],
    width: usize,
    column: &Column,
    prepared: &Prepared,
    picks: Picks<'_>,
) -> Result<()> {
    let (data, offset) = (&prepared.data, column.offset);
    match column.kind {
        Kind::Boolean => {
            let bits = BooleanBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
            picks.for_each(|n, row| rows[n * width + offset] = u8::from(bits.value(row)));
        }
        Kind::Fixed(1) => store::<u8>(rows, width, offset, values(data), picks),
        Kind::Fixed(2) => store::<u16>(rows, width, offset, values(data), picks),
        Kind::Fixed(4) => store::<u32>(rows, width, offset, values(data), picks),
        Kind::Fixed(8) => store::<u64>(rows, width, offset, values(data), picks),
        Kind::Fixed(16) => store::<i128>(rows, width, offset, values(data), picks),
        Kind::Fixed(32) => store::<i256>(rows, width, offset, values(data), picks),
        Kind::Bytes(bytes) => {
            let values = &data.buffers()[0].as_slice()[data.offset() * bytes..];
            picks.for_each(|n, row| {
                let to = n * width + offset;
                rows[to..to + bytes].copy_from_slice(&values[row * bytes..(row + 1) * bytes]);
            });
        }
        _ => return Err(ExecError::Type(column.data_type.clone())),
    }
    Ok(())
}

/// Writes the picked values at `offset` of consecutive rows.
fn store<T: ArrowNativeType>(
    rows: &mut [u8],
    width: usize,
    offset: usize,
    values: &[T],
    picks: Picks<'_>,
) {
    let end = offset + size_of::<T>();
    assert!(end <= width, "{offset} of {width}");
    let rows = rows.chunks_exact_mut(width);
    match picks {
        Picks::Range(from, to) => {
            for (row, value) in rows.zip(&values[from..to]) {
                row[offset..end].copy_from_slice(value.to_byte_slice());
            }
        }
        Picks::Some(picked) => {
            for (row, index) in rows.zip(picked) {
                row[offset..end].copy_from_slice(values[*index as usize].to_byte_slice());
            }
        }
    }
}

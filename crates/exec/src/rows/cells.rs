//! Values in rows, accessed by pointer.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};

use datafusion::arrow::array::{Array, ArrayData, ArrayDataBuilder, ArrayRef, make_array};
use datafusion::arrow::buffer::{Buffer, NullBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::arrow::error::ArrowError;

use super::address::RowAddress;
use super::pins::PinTable;

/// Pointers to rows of a layout, checked on creation.
///
/// Not `Send`: a borrow of pages for a batch must not live across an await.
#[derive(Debug)]
pub(super) struct Pointers<'a> {
    pointers: Vec<*const u8>,
    width: usize,
    pages: PhantomData<&'a PinTable>,
}

impl<'a> Pointers<'a> {
    pub(super) fn with_capacity(width: usize, rows: usize) -> Self {
        Self { pointers: Vec::with_capacity(rows), width, pages: PhantomData }
    }

    /// Adds a row of `pages`, a table of rows of this width; false if it is not pinned.
    #[inline]
    pub(super) fn push(&mut self, pages: &'a PinTable, page: usize, row: usize) -> bool {
        let Some(pointer) = pages.row(page, row, self.width) else { return false };
        self.pointers.push(pointer);
        true
    }

    /// Adds rows of pages that are pinned for writing. If a row's page is not, adds none and
    /// returns the index of the first such row.
    pub(super) fn extend_writable(
        &mut self,
        pages: &'a PinTable,
        addresses: &[RowAddress],
    ) -> Option<usize> {
        let width = self.width;
        // If all rows are in one page, which is likely for few rows, one check suffices.
        let page = addresses.first().map_or(0, |first| first.page());
        let others = addresses.iter().fold(0, |others, address| others | (address.page() ^ page));
        let rows = addresses.iter().map(|address| address.row() + 1).max().unwrap_or(0);
        if let Some(start) = pages.rows_mut(page, rows).filter(|_| others == 0) {
            // SAFETY: every row is in this page, which is pinned for `'a`, and before its last row
            // in use, so all `width` bytes are inside of the page (`PinTable::row`).
            let pointer = |row: usize| unsafe { start.cast_const().add(row * width) };
            self.pointers.extend(addresses.iter().map(|address| pointer(address.row())));
            return None;
        }
        let from = self.pointers.len();
        let mut failed = false;
        self.pointers.extend(addresses.iter().map(|address| {
            let pointer = pages.row_mut(address.page(), address.row(), width);
            failed |= pointer.is_none();
            let pointer: *const u8 = pointer.map_or(std::ptr::null(), <*mut u8>::cast_const);
            prefetch_at(pointer);
            pointer
        }));
        if !failed {
            return None;
        }
        let first = self.pointers[from..].iter().position(|pointer| pointer.is_null());
        self.pointers.truncate(from);
        first
    }

    /// Returns the pointers alone.
    pub(super) fn into_mut(self) -> Vec<*mut u8> {
        self.pointers.into_iter().map(<*const u8>::cast_mut).collect()
    }

    /// Adds a row that is not in a page.
    #[inline]
    pub(super) fn push_row(&mut self, row: &'a [u8]) {
        assert!(row.len() >= self.width, "a row of {} bytes, not {}", row.len(), self.width);
        self.pointers.push(row.as_ptr());
    }

    pub(super) fn len(&self) -> usize {
        self.pointers.len()
    }

    fn check(&self, offset: usize, bytes: usize) {
        assert!(offset + bytes <= self.width, "{offset} + {bytes} of {}", self.width);
    }

    /// Returns the value at `offset` of every row.
    pub(super) fn load_all<T: ArrowNativeType>(&self, offset: usize) -> Vec<T> {
        self.check(offset, size_of::<T>());
        // SAFETY: every pointer is to `width` readable bytes for as long as `'a`, and the value is
        // inside of them. Every bit pattern is a value of a native type of Arrow.
        let load = |row: &*const u8| unsafe { row.add(offset).cast::<T>().read_unaligned() };
        self.pointers.iter().map(load).collect()
    }

    /// Returns the value at `offset` of one row.
    #[inline]
    pub(super) fn load<T: ArrowNativeType>(&self, row: usize, offset: usize) -> T {
        debug_assert!(offset + size_of::<T>() <= self.width);
        let pointer = self.pointers[row];
        // SAFETY: as for `load_all`; offsets come from the layout that the width is of.
        unsafe { pointer.add(offset).cast::<T>().read_unaligned() }
    }

    /// Returns true if the values at `offset` of the rows are `values`.
    pub(super) fn all_are<T: ArrowNativeType>(&self, offset: usize, values: &[T]) -> bool {
        self.check(offset, size_of::<T>());
        let mut pairs = self.pointers.iter().zip(values);
        // SAFETY: as for `load_all`.
        pairs.all(|(row, value)| unsafe { row.add(offset).cast::<T>().read_unaligned() } == *value)
    }

    /// Returns bytes of one row.
    pub(super) fn bytes(&self, row: usize, offset: usize, len: usize) -> &'a [u8] {
        self.check(offset, len);
        // SAFETY: as for `load_all`; only columns are read this way, and those are not written
        // while the pages are borrowed.
        unsafe { std::slice::from_raw_parts(self.pointers[row].add(offset), len) }
    }

    /// Returns a flag byte of one row, which other threads may be setting.
    pub(super) fn flag(&self, row: usize, offset: usize) -> bool {
        self.check(offset, 1);
        let pointer = self.pointers[row].cast_mut();
        // SAFETY: the byte is inside of the row; while rows are shared, flags are accessed as
        // atomics.
        unsafe { AtomicU8::from_ptr(pointer.add(offset)) }.load(Ordering::Relaxed) != 0
    }

    /// Prefetches the rows into the processor's cache.
    pub(super) fn prefetch(&self) {
        for pointer in &self.pointers {
            prefetch_at(*pointer);
        }
    }
}

/// Prefetches a value into the processor's cache.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    prefetch_at(std::ptr::from_ref(value).cast());
}

#[inline]
fn prefetch_at(pointer: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program could observe, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

/// Builds an array from buffers, without validating their values.
///
/// # Errors
/// If the buffers are too short for the type.
pub(super) fn array(
    data_type: DataType,
    len: usize,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let builder = ArrayDataBuilder::new(data_type).len(len).buffers(buffers).nulls(nulls);
    // SAFETY: the values were taken out of arrays of this type when they were written to their
    // rows, and pages return the bytes that were written. Offsets and views are built together with
    // the buffers they point into; `validate` checks the lengths of all buffers.
    let data = unsafe { builder.build_unchecked() };
    data.validate()?;
    Ok(make_array(data))
}

/// Returns the values of an array of fixed width.
pub(super) fn values<T: ArrowNativeType>(data: &ArrayData) -> &[T] {
    &data.buffers()[0].typed_data::<T>()[data.offset()..data.offset() + data.len()]
}

/// Returns the logical nulls of an array, if any value is null.
pub(super) fn nulls_of(array: &dyn Array) -> Option<NullBuffer> {
    array.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

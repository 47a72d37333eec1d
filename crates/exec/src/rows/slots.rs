//! Slots: the operator's own bytes of rows, read and changed in place.

use std::marker::PhantomData;

use datafusion::arrow::datatypes::ArrowNativeType;

use super::address::RowAddress;
use super::cells::Pointers;
use super::collection::RowPages;
use super::gather::Rows;
use super::residency::Access;
use crate::{ExecError, Result};

/// The extra bytes of some rows, in the order of the requested addresses. A row may occur many
/// times.
///
/// Values are copied out and in, so no reference into a page ever exists, and repeated rows see
/// each other's changes. Not `Send`: a borrow of pages for a batch must not live across an await.
#[derive(Debug)]
pub struct Slots<'a> {
    /// Start of each row.
    rows: Vec<*mut u8>,
    /// Offset of the extra bytes in a row, and their number.
    start: usize,
    bytes: usize,
    access: Access,
    pages: PhantomData<&'a mut [u8]>,
}

/// Builder of the slots of rows of several collections.
#[derive(Debug)]
pub struct SlotsBuilder<'a> {
    /// Null for rows that were not filled in yet.
    slots: Slots<'a>,
}

/// Rows borrowed exclusively: their columns can be compared, then their own bytes changed.
#[derive(Debug)]
pub struct RowsMut<'a>(Rows<'a>);

impl RowPages {
    /// Returns the rows at `addresses` for changing.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] for a row whose page is not pinned for writing.
    pub fn resolve_mut(&mut self, addresses: &[RowAddress]) -> Result<RowsMut<'_>> {
        let this: &Self = self;
        let width = this.layout.width();
        let mut pointers = Pointers::with_capacity(width, addresses.len());
        if let Some(failed) = pointers.extend_writable(&this.fixed, addresses) {
            return Err(not_pinned(addresses[failed]));
        }
        Ok(RowsMut(Rows { pages: this, pointers, has_none: false }))
    }

    /// Returns the operator's own bytes of the rows at `addresses` for changing.
    ///
    /// # Errors
    /// As [`RowPages::resolve_mut`].
    pub fn slots(&mut self, addresses: &[RowAddress]) -> Result<Slots<'_>> {
        Ok(self.resolve_mut(addresses)?.into_slots())
    }

    /// Returns the operator's own bytes of the rows at `addresses` for reading.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] for a row whose page is not pinned.
    pub fn slots_to_read(&self, addresses: &[RowAddress]) -> Result<Slots<'_>> {
        self.resolve(addresses.iter().copied())?.into_slots_to_read()
    }

    /// Fills in rows of this collection at their positions among `slots`, which may have rows of
    /// other collections of the same layout.
    ///
    /// # Errors
    /// As [`RowPages::resolve_mut`].
    ///
    /// # Panics
    /// If a position is out of range, or the layouts differ in their extra bytes.
    pub fn fill_slots<'a>(
        &'a mut self,
        slots: &mut SlotsBuilder<'a>,
        rows: impl Iterator<Item = (usize, RowAddress)>,
    ) -> Result<()> {
        let parts = self.layout.parts();
        let (start, bytes) = (parts.extra_offset, parts.width - parts.extra_offset);
        let slots = &mut slots.slots;
        assert!(slots.bytes == 0 || (slots.start, slots.bytes) == (start, bytes), "other slots");
        (slots.start, slots.bytes) = (start, bytes);
        for (place, address) in rows {
            let row = self.fixed.row_mut(address.page(), address.row(), parts.width);
            slots.rows[place] = row.ok_or_else(|| not_pinned(address))?;
        }
        Ok(())
    }
}

impl<'a> Rows<'a> {
    /// Returns the operator's own bytes of the rows for reading.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] if one of the rows is [`RowAddress::NONE`].
    pub fn into_slots_to_read(self) -> Result<Slots<'a>> {
        if self.has_none {
            return Err(not_pinned(RowAddress::NONE));
        }
        Ok(Slots::new(self.pages, self.pointers.into_mut(), Access::Read))
    }
}

fn not_pinned(address: RowAddress) -> ExecError {
    ExecError::NotPinned { page: address.page(), row: address.row(), how: " for its states" }
}

impl<'a> RowsMut<'a> {
    /// Returns the rows for reading.
    #[must_use]
    pub fn rows(&self) -> &Rows<'a> {
        &self.0
    }

    /// Returns the operator's own bytes of the rows for changing.
    #[must_use]
    pub fn into_slots(self) -> Slots<'a> {
        Slots::new(self.0.pages, self.0.pointers.into_mut(), Access::Write)
    }
}

impl<'a> SlotsBuilder<'a> {
    /// Creates a builder for the slots of `len` rows.
    #[must_use]
    pub fn with_len(len: usize) -> Self {
        let rows = vec![std::ptr::null_mut(); len];
        let access = Access::Write;
        Self { slots: Slots { rows, start: 0, bytes: 0, access, pages: PhantomData } }
    }

    /// Returns the slots.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] if a row was not filled in.
    pub fn finish(self) -> Result<Slots<'a>> {
        if self.slots.rows.iter().any(|row| row.is_null()) {
            return Err(not_pinned(RowAddress::NONE));
        }
        Ok(self.slots)
    }
}

impl<'a> Slots<'a> {
    /// Creates slots of rows of `pages`; [`Access::Write`] only if those were borrowed exclusively.
    fn new(pages: &'a RowPages, rows: Vec<*mut u8>, access: Access) -> Self {
        let parts = pages.layout.parts();
        let (start, bytes) = (parts.extra_offset, parts.width - parts.extra_offset);
        Self { rows, start, bytes, access, pages: PhantomData }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the offset in a row of a value at `offset` of the extra bytes, which must contain
    /// it.
    fn place(&self, offset: usize, bytes: usize) -> usize {
        let end = offset.saturating_add(bytes);
        assert!(end <= self.bytes || self.is_empty(), "a slot has {} bytes, not {end}", self.bytes);
        self.start + offset
    }

    fn place_to_write(&self, offset: usize, bytes: usize) -> usize {
        assert!(self.access == Access::Write, "slots to read are not written");
        self.place(offset, bytes)
    }

    /// Returns the value at `offset` of every row.
    ///
    /// # Panics
    /// If a value at `offset` is not inside of the row's extra bytes; this holds for all methods
    /// here.
    #[must_use]
    pub fn load<T: ArrowNativeType>(&self, offset: usize) -> Vec<T> {
        let at = self.place(offset, size_of::<T>());
        // SAFETY: the pointers are those of rows of pages that stay pinned for `'a` (`resolve`,
        // `resolve_mut`, `fill_slots`; `finish` refuses rows not filled in), the value is inside of
        // the row, and every bit pattern is a value of a native type of Arrow. Slots for changing
        // borrow their collections exclusively, and through slots for reading nothing is written.
        let load = |row: &*mut u8| unsafe { row.add(at).cast::<T>().read_unaligned() };
        self.rows.iter().map(load).collect()
    }

    /// Sets the value at `offset` of every row to its element of `values`, in order.
    pub fn store<T: ArrowNativeType>(&mut self, offset: usize, values: impl Iterator<Item = T>) {
        let at = self.place_to_write(offset, size_of::<T>());
        for (row, value) in self.rows.iter().zip(values) {
            // SAFETY: as for `load`, and the pages are pinned for writing by their collection,
            // which is borrowed exclusively.
            unsafe { row.add(at).cast::<T>().write_unaligned(value) };
        }
    }

    /// Folds into the value at `offset` of every row its element of `values`, in order.
    #[inline]
    pub fn fold<T: ArrowNativeType, V>(
        &mut self,
        offset: usize,
        values: impl Iterator<Item = V>,
        fold: impl Fn(&mut T, V),
    ) {
        let at = self.place_to_write(offset, size_of::<T>());
        for (row, value) in self.rows.iter().zip(values) {
            // SAFETY: as for `load`.
            let mut state = unsafe { row.add(at).cast::<T>().read_unaligned() };
            fold(&mut state, value);
            // SAFETY: as for `store`.
            unsafe { row.add(at).cast::<T>().write_unaligned(state) };
        }
    }

    /// As [`Slots::fold`], with a `fold` that returns true if it changed the value; other rows are
    /// not written.
    #[inline]
    pub fn fold_some<T: ArrowNativeType, V>(
        &mut self,
        offset: usize,
        values: impl Iterator<Item = V>,
        fold: impl Fn(&mut T, V) -> bool,
    ) {
        let at = self.place_to_write(offset, size_of::<T>());
        for (row, value) in self.rows.iter().zip(values) {
            // SAFETY: as for `load`.
            let mut state = unsafe { row.add(at).cast::<T>().read_unaligned() };
            if fold(&mut state, value) {
                // SAFETY: as for `store`.
                unsafe { row.add(at).cast::<T>().write_unaligned(state) };
            }
        }
    }

    /// Folds into the values at both `offsets` of every row its element of `values`, in order.
    #[inline]
    pub fn fold_two<T: ArrowNativeType, U: ArrowNativeType, V>(
        &mut self,
        offsets: (usize, usize),
        values: impl Iterator<Item = V>,
        fold: impl Fn(&mut T, &mut U, V),
    ) {
        let one = self.place_to_write(offsets.0, size_of::<T>());
        let two = self.place_to_write(offsets.1, size_of::<U>());
        for (row, value) in self.rows.iter().zip(values) {
            // SAFETY: as for `load`.
            let mut first = unsafe { row.add(one).cast::<T>().read_unaligned() };
            // SAFETY: as for `load`.
            let mut second = unsafe { row.add(two).cast::<U>().read_unaligned() };
            fold(&mut first, &mut second, value);
            // SAFETY: as for `store`.
            unsafe { row.add(one).cast::<T>().write_unaligned(first) };
            // SAFETY: as for `store`.
            unsafe { row.add(two).cast::<U>().write_unaligned(second) };
        }
    }

    /// Folds into the value at `offset` of each row `n` of `selected` the element `values[n]`.
    ///
    /// # Panics
    /// Also if `selected` has an index that is out of range.
    #[inline]
    pub fn fold_selected<T: ArrowNativeType, V: Copy>(
        &mut self,
        offset: usize,
        selected: &[u32],
        values: &[V],
        fold: impl Fn(&mut T, V),
    ) {
        let at = self.place_to_write(offset, size_of::<T>());
        for index in selected {
            let (row, value) = (self.rows[*index as usize], values[*index as usize]);
            // SAFETY: as for `load`.
            let mut state = unsafe { row.add(at).cast::<T>().read_unaligned() };
            fold(&mut state, value);
            // SAFETY: as for `store`.
            unsafe { row.add(at).cast::<T>().write_unaligned(state) };
        }
    }

    /// Writes the same bytes to every row, from `offset` on.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let at = self.place_to_write(offset, bytes.len());
        for row in &self.rows {
            // SAFETY: as for `store`; the bytes written are inside of the row, and `bytes` does not
            // overlap it, since the pages are borrowed exclusively.
            unsafe { row.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }

    /// Copies `len` bytes from `offset` on of every row of `from` to the row here.
    pub fn copy_from(&mut self, from: &Slots<'_>, offset: usize, len: usize) {
        let at = self.place_to_write(offset, len);
        let from_at = from.place(offset, len);
        assert_eq!(self.len(), from.len(), "as many rows");
        for (to, from) in self.rows.iter().zip(&from.rows) {
            // SAFETY: both ranges are inside of their rows; `copy_from` allows them to be the same
            // row.
            unsafe { to.add(at).copy_from(from.add(from_at), len) };
        }
    }
}

//! Collection of rows: its pages, and the room in them.

use std::ops::Range;
use std::sync::Arc;

use terrace_pool::{PAGE_MAX_BYTES, PageRef, Space};
use terrace_sys::size::to_u64;

use super::address::RowAddress;
use super::columns::Columns;
use super::layout::{PAGE_BYTES, RowLayout, page_bytes};
use super::pins::PinTable;
use crate::blocking::allocate;
use crate::{ExecError, Grant, Result};

/// Bytes of variable pages from which a fixed page takes no more rows: both are pinned together,
/// and a page of rows with values of 256 KiB each would pin more than memory.
const VALUES_OF_PAGE_MAX: usize = 4 << 20;

/// The variable pages of a fixed page.
#[derive(Clone, Debug, Default)]
pub(super) struct PageParts {
    /// Variable pages that its rows point into.
    pub(super) variable: Range<usize>,
}

/// An append-only collection of rows in pages. Dropping it frees all of them.
#[derive(Debug)]
pub struct RowPages {
    pub(super) space: Space,
    pub(super) grant: Arc<dyn Grant>,
    pub(super) layout: RowLayout,
    pub(super) fixed: PinTable,
    pub(super) parts: Vec<PageParts>,
    pub(super) variable: PinTable,
    /// A row with every column null.
    pub(super) null_row: Box<[u8]>,
    /// Columns that have a null in some row.
    pub(super) has_nulls: Vec<bool>,
    pub(super) rows: u64,
    /// Bytes granted and not used yet.
    pub(super) reserved_bytes: u64,
    pub(super) pinned_bytes: u64,
    pub(super) bytes: u64,
    /// Variable pages below this one are freed.
    pub(super) variable_freed: usize,
    /// Bytes of a page, unless one row or value needs more.
    pub(super) page_limit: usize,
    /// Fixed and variable pages below these are unpinned.
    pub(super) swept: (usize, usize),
    /// The collection that owns the pages, if it is another one.
    pub(super) owner: Option<Arc<RowPages>>,
    /// Numbers of fixed and variable pages when all were last unpinned: the pages after them begin
    /// small again, since the last ones may be nearly empty.
    pub(super) begun: (usize, usize),
}

impl RowPages {
    /// Creates an empty collection; its pages are those of `space` and are charged to `grant`.
    #[must_use]
    pub fn new(space: Space, grant: Arc<dyn Grant>, layout: RowLayout) -> Self {
        let mut null_row = vec![0_u8; layout.width()].into_boxed_slice();
        for column in &layout.parts().columns {
            null_row[column.null_byte] |= column.null_mask;
        }
        let has_nulls = vec![false; layout.columns()];
        Self {
            space,
            grant,
            layout,
            fixed: PinTable::default(),
            parts: Vec::new(),
            variable: PinTable::default(),
            null_row,
            has_nulls,
            rows: 0,
            reserved_bytes: 0,
            pinned_bytes: 0,
            bytes: 0,
            variable_freed: 0,
            page_limit: PAGE_BYTES,
            swept: (0, 0),
            owner: None,
            begun: (0, 0),
        }
    }

    /// Limits new pages to `bytes` each, between 16 KiB and 256 KiB: for a collection that is one
    /// of many.
    #[must_use]
    pub fn with_page_limit(mut self, bytes: usize) -> Self {
        self.page_limit = bytes.clamp(page_bytes(0), PAGE_BYTES);
        self
    }

    /// Limits pages to so few bytes that the open ones (those being filled) take at most `bytes`
    /// together, 16 KiB each at least.
    #[must_use]
    pub fn with_open_limit(self, bytes: usize) -> Self {
        let bytes = bytes / self.tables();
        // A power of two fills its frame.
        self.with_page_limit(1 << bytes.max(1).ilog2())
    }

    /// Returns the maximum bytes of the open pages, apart from values longer than a page.
    #[must_use]
    pub fn open_bytes(&self) -> u64 {
        to_u64(self.page_limit.max(self.layout.page_bytes_min()) * self.tables())
    }

    /// Returns the number of kinds of pages that rows go to.
    fn tables(&self) -> usize {
        1 + usize::from(self.layout.has_variable())
    }

    /// Returns the layout of the rows.
    #[must_use]
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Returns the number of rows appended, without those in freed pages.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the bytes of the pages, pinned or not.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of the pages that are pinned.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Returns the number of fixed pages, including freed ones.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.fixed.len()
    }

    /// Returns the number of rows in a fixed page; 0 once it is freed.
    #[must_use]
    pub fn rows_in(&self, page: usize) -> usize {
        if self.fixed.bytes(page) == 0 { 0 } else { self.fixed.used(page) }
    }

    /// Returns the addresses of the rows of a page, in the order they were appended.
    pub fn addresses(&self, page: usize) -> impl Iterator<Item = RowAddress> + use<> {
        (0..self.rows_in(page)).map(move |row| RowAddress::new(page, row))
    }

    /// Asks the grant for the bytes to append `rows` rows of `columns`, and keeps them reserved;
    /// returns false if it refuses them.
    pub fn try_reserve(&mut self, columns: &Columns, rows: usize) -> bool {
        let bytes = self.bytes_to_append(columns, rows);
        self.try_reserve_bytes(bytes)
    }

    /// Asks the grant for what the reserve lacks of `bytes`, to be used by the pages that are
    /// appended or pinned next; returns false if it refuses them.
    pub fn try_reserve_bytes(&mut self, bytes: u64) -> bool {
        let lacking = bytes.saturating_sub(self.reserved_bytes);
        if lacking > 0 {
            if !self.grant.try_grow(lacking) {
                return false;
            }
            self.reserved_bytes += lacking;
        }
        true
    }

    /// Returns the maximum bytes of new pages that appending `rows` rows of `columns` pins.
    #[must_use]
    pub fn bytes_to_append(&self, columns: &Columns, rows: usize) -> u64 {
        let mut bytes = 0;
        let mut page = self.fixed.len();
        let mut room = self.room_for_rows();
        while room < rows {
            let len = self.fixed_page_bytes(page);
            bytes += len;
            room += self.layout.rows_in(len);
            page += 1;
        }
        bytes += self.variable_bytes_to_append(columns, rows);
        to_u64(bytes)
    }

    /// Returns the maximum bytes of new variable pages that appending pins.
    fn variable_bytes_to_append(&self, columns: &Columns, rows: usize) -> usize {
        let mut lacking = columns.variable_bytes(rows).saturating_sub(self.room_for_bytes());
        let mut bytes = 0;
        let mut page = self.variable.len();
        while lacking > 0 {
            let len = self.variable_page_bytes(page);
            bytes += len;
            lacking = lacking.saturating_sub(len);
            page += 1;
        }
        bytes
    }

    /// Releases the reserved bytes that no page has used.
    pub fn release_reserve(&mut self) {
        self.grant.shrink(std::mem::take(&mut self.reserved_bytes));
    }

    fn fixed_page_bytes(&self, nth: usize) -> usize {
        let nth = nth.saturating_sub(self.begun.0);
        page_bytes(nth).min(self.page_limit).max(self.layout.page_bytes_min())
    }

    fn variable_page_bytes(&self, nth: usize) -> usize {
        page_bytes(nth.saturating_sub(self.begun.1)).min(self.page_limit)
    }

    /// Adds a page for the fixed-width parts of rows.
    pub(super) fn add_fixed(&mut self) -> Result<()> {
        let bytes = self.fixed_page_bytes(self.fixed.len());
        let (page, pin) = allocate(&self.space, bytes)?;
        let pin = pin.pin();
        self.count_page(pin.len());
        self.fixed.push(page, pin);
        let variable = self.variable.len().saturating_sub(1);
        self.parts.push(PageParts { variable: variable..variable });
        Ok(())
    }

    /// Adds a variable page with room for a value of `len` bytes.
    pub(super) fn add_variable(&mut self, len: usize) -> Result<()> {
        let bytes = self.variable_page_bytes(self.variable.len()).max(len);
        if bytes > PAGE_MAX_BYTES {
            return Err(ExecError::ValueTooLong(to_u64(len)));
        }
        let (page, pin) = allocate(&self.space, bytes)?;
        let pin = pin.pin();
        self.count_page(pin.len());
        self.variable.push(page, pin);
        Ok(())
    }

    fn count_page(&mut self, bytes: usize) {
        self.bytes += to_u64(bytes);
        self.count_pin(to_u64(bytes));
    }

    /// Charges a pinned page, first to the reserve, the rest to the grant.
    pub(super) fn count_pin(&mut self, bytes: u64) {
        let reserved = bytes.min(self.reserved_bytes);
        self.reserved_bytes -= reserved;
        self.pinned_bytes += bytes;
        if bytes > reserved {
            self.grant.grow(bytes - reserved);
        }
    }

    /// Returns the number of rows that the last page still has room for.
    pub(super) fn room_for_rows(&self) -> usize {
        let Some(last) = self.fixed.len().checked_sub(1) else { return 0 };
        if !self.fixed.is_writable(last) || self.value_bytes(last) >= VALUES_OF_PAGE_MAX {
            return 0;
        }
        self.layout.rows_in(self.fixed.bytes(last)).saturating_sub(self.fixed.used(last))
    }

    /// Returns the bytes of the variable pages that are pinned with a fixed page.
    fn value_bytes(&self, page: usize) -> usize {
        let variable = self.parts.get(page).map(|parts| parts.variable.clone());
        variable.into_iter().flatten().map(|index| self.variable.bytes(index)).sum()
    }

    /// Returns the number of bytes that the last variable page still has room for.
    pub(super) fn room_for_bytes(&self) -> usize {
        let Some(last) = self.variable.len().checked_sub(1) else { return 0 };
        if !self.variable.is_writable(last) {
            return 0;
        }
        self.variable.bytes(last).saturating_sub(self.variable.used(last))
    }

    pub(super) fn free(space: &Space, page: Option<PageRef>) {
        if let Some(page) = page {
            let freed = space.free(page);
            debug_assert!(freed.is_ok(), "a page of this space: {freed:?}");
        }
    }
}

impl Drop for RowPages {
    fn drop(&mut self) {
        for table in [&mut self.fixed, &mut self.variable] {
            for index in 0..table.len() {
                let page = table.remove(index);
                Self::free(&self.space, page.filter(|_| self.owner.is_none()));
            }
        }
        self.grant.shrink(self.pinned_bytes + self.reserved_bytes);
    }
}

//! Pages of a collection, pinned or not, and pointers into them.
//!
//! This module and [`super::cells`] are the unsafe part of the rows. A [`PinTable`] owns the pins
//! of its pages, and next to each pin the address of its page; an address never exists without its
//! pin. All accesses are through raw pointers, so that one thread may set a flag in a row while
//! another reads the other bytes of the same row; no reference to a whole page is ever made.

use std::sync::atomic::{AtomicU8, Ordering};

use terrace_pool::{PageRef, Pinned, PinnedMut};

/// The pages of one kind, fixed or variable, of a collection.
#[derive(Debug, Default)]
pub(super) struct PinTable {
    pages: Vec<Page>,
    bases: Vec<Base>,
}

#[derive(Debug)]
struct Page {
    page: Option<PageRef>,
    pin: Pin,
    bytes: usize,
    /// Number of rows, or of bytes of values, written so far.
    used: usize,
}

#[derive(Debug, Default)]
enum Pin {
    #[default]
    None,
    Shared(Pinned),
    Exclusive(PinnedMut),
}

/// Address of a page, and how much of it is in use; null and 0 for a page that is not pinned.
#[derive(Clone, Copy, Debug)]
struct Base {
    start: *mut u8,
    used: usize,
    writable: bool,
}

const UNPINNED: Base = Base { start: std::ptr::null_mut(), used: 0, writable: false };

// SAFETY: the addresses in `bases` are those of pages that the pins in `pages` hold, which may be
// used from any thread. Through `&PinTable` bytes are only read, except for flags, which are
// written and read as atomics; all other writes need `&mut PinTable`.
unsafe impl Send for PinTable {}
// SAFETY: as above.
unsafe impl Sync for PinTable {}

impl PinTable {
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Adds a new page, pinned for writing.
    pub(super) fn push(&mut self, page: PageRef, pin: PinnedMut) {
        let bytes = pin.len();
        self.pages.push(Page { page: Some(page), pin: Pin::None, bytes, used: 0 });
        self.bases.push(UNPINNED);
        self.pin_exclusive(self.pages.len() - 1, pin);
    }

    /// Returns the rows or bytes in use in a page, pinned or not.
    pub(super) fn used(&self, index: usize) -> usize {
        self.pages.get(index).map_or(0, |page| page.used)
    }

    pub(super) fn set_used(&mut self, index: usize, used: usize) {
        self.pages[index].used = used;
        if !self.bases[index].start.is_null() {
            self.bases[index].used = used;
        }
    }

    /// Returns the length of a page in bytes, 0 once it is freed.
    pub(super) fn bytes(&self, index: usize) -> usize {
        self.pages.get(index).filter(|page| page.page.is_some()).map_or(0, |page| page.bytes)
    }

    pub(super) fn page(&self, index: usize) -> Option<PageRef> {
        self.pages.get(index)?.page
    }

    pub(super) fn set_page(&mut self, index: usize, page: PageRef) {
        self.pages[index].page = Some(page);
    }

    pub(super) fn is_pinned(&self, index: usize) -> bool {
        self.bases.get(index).is_some_and(|base| !base.start.is_null())
    }

    pub(super) fn is_writable(&self, index: usize) -> bool {
        self.bases.get(index).is_some_and(|base| base.writable)
    }

    pub(super) fn pin_shared(&mut self, index: usize, pin: Pinned) {
        let (used, start) = (self.pages[index].used, pin.as_ptr().cast_mut());
        self.pages[index].pin = Pin::Shared(pin);
        self.bases[index] = Base { start, used, writable: false };
    }

    pub(super) fn pin_exclusive(&mut self, index: usize, mut pin: PinnedMut) {
        let (used, start) = (self.pages[index].used, pin.as_mut_ptr());
        self.pages[index].pin = Pin::Exclusive(pin);
        self.bases[index] = Base { start, used, writable: true };
    }

    /// Unpins a page; returns true if it was pinned.
    pub(super) fn unpin(&mut self, index: usize) -> bool {
        self.bases[index] = UNPINNED;
        !matches!(std::mem::take(&mut self.pages[index].pin), Pin::None)
    }

    /// Moves the pins of this table to a new table of the same pages, all as shared pins.
    pub(super) fn split(&mut self) -> Self {
        let mut other = self.unpinned();
        for index in 0..self.pages.len() {
            self.bases[index] = UNPINNED;
            match std::mem::take(&mut self.pages[index].pin) {
                Pin::None => {}
                Pin::Shared(pin) => other.pin_shared(index, pin),
                Pin::Exclusive(pin) => other.pin_shared(index, pin.downgrade()),
            }
        }
        other
    }

    /// Returns a table of the same pages without pins.
    pub(super) fn unpinned(&self) -> Self {
        let copy = |page: &Page| Page { pin: Pin::None, ..*page };
        let pages = self.pages.iter().map(copy).collect::<Vec<_>>();
        let bases = vec![UNPINNED; pages.len()];
        Self { pages, bases }
    }

    /// Removes a page from the table and returns it; its index stays.
    pub(super) fn remove(&mut self, index: usize) -> Option<PageRef> {
        self.unpin(index);
        self.pages[index].page.take()
    }

    /// Returns the address of a row, or `None` if its page is not pinned or has no such row.
    ///
    /// `width` is that of the layout, and `used` of a page never exceeds its bytes over the width,
    /// so all `width` bytes are inside of the page.
    #[inline]
    pub(super) fn row(&self, page: usize, row: usize, width: usize) -> Option<*mut u8> {
        let base = self.bases.get(page).filter(|base| row < base.used)?;
        // SAFETY: the page is pinned, since `used` is 0 otherwise, and the row is inside of it.
        Some(unsafe { base.start.add(row * width) })
    }

    /// As [`PinTable::row`], for a page that is pinned for writing.
    #[inline]
    pub(super) fn row_mut(&self, page: usize, row: usize, width: usize) -> Option<*mut u8> {
        let base = self.bases.get(page).filter(|base| row < base.used && base.writable)?;
        // SAFETY: as for `row`.
        Some(unsafe { base.start.add(row * width) })
    }

    /// Returns the address of the first of `rows` rows of a page, or `None` if it is not pinned for
    /// writing or has fewer.
    #[inline]
    pub(super) fn rows_mut(&self, page: usize, rows: usize) -> Option<*mut u8> {
        let base = self.bases.get(page).filter(|base| rows <= base.used && base.writable)?;
        Some(base.start)
    }

    /// Returns bytes of a page, or `None` if it is not pinned or is too short.
    ///
    /// For variable pages, whose bytes in use never change.
    #[inline]
    pub(super) fn slice(&self, page: usize, from: usize, len: usize) -> Option<&[u8]> {
        let base = self.bases.get(page)?;
        if from.checked_add(len)? > base.used {
            return None;
        }
        // SAFETY: the page is pinned for as long as `self` is borrowed, the range is inside of it,
        // and bytes in use of variable pages are written only through `slice_mut`, by `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(base.start.add(from), len) })
    }

    /// Returns the eight bytes at `at` in a row, or `None` if its page is not pinned.
    #[inline]
    pub(super) fn row_word(&self, page: usize, row: usize, width: usize, at: usize) -> Option<u64> {
        let start = self.row(page, row, width).filter(|_| at + 8 <= width)?;
        // SAFETY: the row is pinned for as long as `self` is borrowed, and the word inside of it.
        Some(unsafe { start.add(at).cast::<u64>().read_unaligned() })
    }

    /// Returns bytes of a page for writing, or `None` if it is not pinned for writing or is too
    /// short.
    pub(super) fn slice_mut(&mut self, page: usize, from: usize, len: usize) -> Option<&mut [u8]> {
        let base = self.bases.get(page).filter(|base| base.writable)?;
        if from.checked_add(len)? > self.pages[page].bytes {
            return None;
        }
        // SAFETY: the page is pinned exclusively, the range is inside of it, and `&mut self`
        // excludes every other access to the table's pages for as long as the slice lives.
        Some(unsafe { std::slice::from_raw_parts_mut(base.start.add(from), len) })
    }

    /// Sets the flag byte at `offset` of a row; false if the row is not pinned for writing.
    #[inline]
    pub(super) fn set_flag(&self, page: usize, row: usize, width: usize, offset: usize) -> bool {
        let writable = self.bases.get(page).is_some_and(|base| base.writable);
        let Some(start) = self.row(page, row, width).filter(|_| writable && offset < width) else {
            return false;
        };
        // SAFETY: the byte is inside of a row of a page that is pinned exclusively by this table;
        // while the table is shared, flags are accessed only as atomics.
        unsafe { AtomicU8::from_ptr(start.add(offset)) }.store(1, Ordering::Relaxed);
        true
    }
}

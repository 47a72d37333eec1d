//! The page table: maps a page id to the page's state and its copy on the store.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use terrace_store::{Extent, Stored};

use crate::array::{Zeroed, ZeroedArray};
use crate::owner::Owner;
use crate::page::{PAGE_MIN_BYTES, PageId};
use crate::state::StateWord;

/// Page-table entry. All zero bytes are an id not in use.
///
/// `state` determines the thread that may change the other fields: see [`crate::state`].
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct PageEntry {
    pub(crate) state: StateWord,
    /// Offset of the page's extent in units of 4 KiB, plus 1; 0 without an extent.
    stored_at: AtomicU64,
    checksum: AtomicU32,
    space: AtomicU32,
    serial: AtomicU32,
    len_units: AtomicU16,
    tenure: AtomicU8,
}

// SAFETY: atomics alone, valid as zeroes, nothing to drop.
unsafe impl Zeroed for PageEntry {}

const TEMPORARY: u8 = 0;
const DURABLE: u8 = 1;
const FORGOTTEN: u8 = 2;

const UNIT: u64 = PAGE_MIN_BYTES as u64;

impl PageEntry {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len_units.load(Ordering::Relaxed)) * PAGE_MIN_BYTES
    }

    /// Initializes the entry for a new page, before its state leaves `Free`.
    pub(crate) fn reset(&self, owner: Owner, len: usize) {
        self.space.store(owner.space(), Ordering::Relaxed);
        self.serial.store(owner.serial(), Ordering::Relaxed);
        let units = u16::try_from(len / PAGE_MIN_BYTES).unwrap_or(u16::MAX);
        self.len_units.store(units, Ordering::Relaxed);
        self.tenure.store(TEMPORARY, Ordering::Relaxed);
        self.set_stored(None);
    }

    /// Returns the space that owns the page.
    pub(crate) fn owner(&self) -> Owner {
        Owner::new(self.space.load(Ordering::Relaxed), self.serial.load(Ordering::Relaxed))
    }

    /// True if a directory outside the pool refers to the extent: the page is never written again.
    pub(crate) fn is_durable(&self) -> bool {
        self.tenure.load(Ordering::SeqCst) != TEMPORARY
    }

    pub(crate) fn set_durable(&self) {
        self.tenure.store(DURABLE, Ordering::SeqCst);
    }

    /// True if freeing the page keeps its extent, since the directory still refers to it.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.tenure.load(Ordering::SeqCst) == FORGOTTEN
    }

    pub(crate) fn set_forgotten(&self) {
        self.tenure.store(FORGOTTEN, Ordering::SeqCst);
    }

    /// Returns the page's copy on the store. It is stale while the page is dirty.
    pub(crate) fn stored(&self) -> Option<Stored> {
        let unit = self.stored_at.load(Ordering::Acquire).checked_sub(1)?;
        let extent = Extent { offset_bytes: unit * UNIT, len_bytes: self.len() as u64 };
        Some(Stored { extent, checksum: self.checksum.load(Ordering::Relaxed) })
    }

    pub(crate) fn set_stored(&self, stored: Option<Stored>) {
        if let Some(stored) = stored {
            self.checksum.store(stored.checksum, Ordering::Relaxed);
        }
        let unit = stored.map_or(0, |stored| stored.extent.offset_bytes / UNIT + 1);
        self.stored_at.store(unit, Ordering::Release);
    }
}

/// Entries of all page ids, touched as ids come into use.
#[derive(Debug)]
pub(crate) struct PageTable {
    entries: ZeroedArray<PageEntry>,
    /// Length in bytes of the longest page so far.
    longest: AtomicUsize,
}

impl PageTable {
    pub(crate) fn reserve(pages: usize) -> io::Result<Self> {
        Ok(Self { entries: ZeroedArray::reserve(pages)?, longest: AtomicUsize::new(0) })
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Records the length of a new page.
    pub(crate) fn note_length(&self, len: usize) {
        if len > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(len, Ordering::Relaxed);
        }
    }

    /// Returns the length in bytes of the longest page so far.
    pub(crate) fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }

    /// Returns the entry of a page id, also of one not in use; `None` for an id beyond the table,
    /// which no page of this pool has had.
    pub(crate) fn find(&self, page: PageId) -> Option<&PageEntry> {
        usize::try_from(page.0).ok().and_then(|index| self.entries.get(index))
    }
}

impl std::ops::Index<PageId> for PageTable {
    type Output = PageEntry;

    /// # Panics
    /// If the id is out of range, which only a bug in the pool can cause.
    fn index(&self, page: PageId) -> &PageEntry {
        match self.find(page) {
            Some(entry) => entry,
            None => unreachable!("{page:?} of {}", self.capacity()),
        }
    }
}

const _: () = assert!(size_of::<PageEntry>() == 32);

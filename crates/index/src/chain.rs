//! Walks along the pages of a bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use terrace_pool::{PageRef, Pages};
use terrace_sys::sync::lock;

use crate::error::{Result, in_page};
use crate::page::{NEXT, View};

/// Absence of a page: no page of a pool has this id.
const NO_PAGE: u64 = u64::MAX;

/// A bucket: the reference to its first page, and the lock of its writers.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Reference to the first page, or `NO_PAGE`. The id never changes once it is set; any thread
    /// may correct the hint at any time.
    head: AtomicU64,
    /// Lock of the writers, with the number of records in the bucket.
    writer: Mutex<u64>,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        Self { head: AtomicU64::new(NO_PAGE), writer: Mutex::new(0) }
    }

    pub(crate) fn head(&self) -> Option<PageRef> {
        let bits = self.head.load(Ordering::Acquire);
        (bits != NO_PAGE).then(|| PageRef::from_bits(bits))
    }

    pub(crate) fn set_head(&self, page: PageRef) {
        self.head.store(page.to_bits(), Ordering::Release);
    }

    /// Locks the bucket for changes. The guard has the number of its records.
    pub(crate) fn lock(&self) -> MutexGuard<'_, u64> {
        lock(&self.writer)
    }
}

/// A position in a chain: a page latched for reading.
///
/// A walk holds the latch of its page until it has that of the next (latch coupling), so that no
/// writer can unlink the next page in between. It repairs the hints that turn out to be wrong.
pub(crate) struct Walk<'a, P: Pages> {
    pages: &'a P,
    pub(crate) page: PageRef,
    held: P::Read<'a>,
}

impl<'a, P: Pages> Walk<'a, P> {
    /// Starts at the first page of a bucket; `None` if it has none yet.
    pub(crate) fn start(pages: &'a P, bucket: &Bucket) -> Result<Option<Self>> {
        let Some(known) = bucket.head() else { return Ok(None) };
        let mut page = known;
        let held = pages.read(&mut page)?;
        if page != known {
            bucket.set_head(page);
        }
        Ok(Some(Self { pages, page, held }))
    }

    /// Starts at a page that cannot be unlinked meanwhile: the caller has the bucket's lock.
    pub(crate) fn at(pages: &'a P, mut page: PageRef) -> Result<Self> {
        let held = pages.read(&mut page)?;
        Ok(Self { pages, page, held })
    }

    pub(crate) fn view(&self) -> Result<View<'_>> {
        in_page(self.page.id(), View::of(&self.held))
    }

    /// Moves to the next page and returns true, or stays if there is none.
    pub(crate) fn advance(&mut self, next: Option<PageRef>) -> Result<bool> {
        let Some(known) = next else { return Ok(false) };
        let mut page = known;
        let following = self.pages.read(&mut page)?;
        if page != known {
            // If the repair fails now, the next walk finds the hint wrong again and retries.
            self.pages.repair(&mut self.held, NEXT, page);
        }
        (self.held, self.page) = (following, page);
        Ok(true)
    }
}

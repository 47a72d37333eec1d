//! Walking along a bucket's pages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use terrace_pool::{PageRef, Pages};

use crate::error::{Result, in_page};
use crate::page::{NEXT, View};

/// No page: no pool has this id.
const NO_PAGE: u64 = u64::MAX;

/// A bucket: the reference to its first page, and the lock of those who change it.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The id never changes once there is one; the hint may, by anybody, at any time.
    head: AtomicU64,
    /// Records in the bucket.
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

    /// The right to change the bucket, and the count of its records.
    pub(crate) fn lock(&self) -> MutexGuard<'_, u64> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a chain: a page held for reading.
///
/// A walk holds its page until it holds the next (latch coupling), so that nobody can take the next
/// page out of the chain in between. On its way it repairs the hints that turn out to be wrong.
pub(crate) struct Walk<'a, P: Pages> {
    pages: &'a P,
    pub(crate) page: PageRef,
    held: P::Read<'a>,
}

impl<'a, P: Pages> Walk<'a, P> {
    /// At a bucket's first page; `None` where it has none yet.
    pub(crate) fn start(pages: &'a P, bucket: &Bucket) -> Result<Option<Self>> {
        let Some(known) = bucket.head() else { return Ok(None) };
        let mut page = known;
        let held = pages.read(&mut page)?;
        if page != known {
            bucket.set_head(page);
        }
        Ok(Some(Self { pages, page, held }))
    }

    /// At a page that cannot leave its chain meanwhile: the caller has the bucket's lock.
    pub(crate) fn at(pages: &'a P, mut page: PageRef) -> Result<Self> {
        let held = pages.read(&mut page)?;
        Ok(Self { pages, page, held })
    }

    pub(crate) fn view(&self) -> Result<View<'_>> {
        in_page(self.page.id(), View::of(&self.held))
    }

    /// Goes on to the next page, if there is one; otherwise stays.
    pub(crate) fn advance(&mut self, next: Option<PageRef>) -> Result<bool> {
        let Some(known) = next else { return Ok(false) };
        let mut page = known;
        let following = self.pages.read(&mut page)?;
        if page != known {
            // Where it cannot be done now, the next walk finds it wrong again and tries.
            self.pages.repair(&mut self.held, NEXT, page);
        }
        (self.held, self.page) = (following, page);
        Ok(true)
    }
}

//! The [`Pages`] trait, which index structures are written against.

use std::ops::{Deref, DerefMut};

use terrace_store::Stored;

use crate::error::PoolError;
use crate::guard::{ReadGuard, WriteGuard};
use crate::optimistic::OptimisticGuard;
use crate::page::PageRef;
use crate::space::Space;

/// The pages of one owner.
///
/// [`Space`] implements this trait for a pool, in either [`crate::Placement`]; other
/// implementations find pages in another way, to be compared with it. Index structures are written
/// against this trait. The methods keep the contracts of those of [`Space`].
pub trait Pages: Clone + Send + Sync + 'static {
    /// A page held for reading.
    type Read<'a>: Deref<Target = [u8]>
    where
        Self: 'a;
    /// A page held for writing.
    type Write<'a>: DerefMut<Target = [u8]>
    where
        Self: 'a;

    /// Allocates a page, all zero, held for writing. See [`Space::allocate`].
    ///
    /// # Errors
    /// As [`Space::allocate`].
    fn allocate(&self, len_bytes: usize) -> Result<(PageRef, Self::Write<'_>), PoolError>;

    /// Creates a page for an extent that is on the store already. See [`Space::adopt`].
    ///
    /// # Errors
    /// As [`Space::adopt`].
    fn adopt(&self, stored: Stored) -> Result<PageRef, PoolError>;

    /// Fixes a page for reading. See [`Space::read`].
    ///
    /// # Errors
    /// As [`Space::read`].
    fn read(&self, page: &mut PageRef) -> Result<Self::Read<'_>, PoolError>;

    /// Fixes a page for writing. See [`Space::write`].
    ///
    /// # Errors
    /// As [`Space::write`].
    fn write(&self, page: &mut PageRef) -> Result<Self::Write<'_>, PoolError>;

    /// Repairs the hint of the reference to `page` at `offset` of a held page, if the latch can be
    /// upgraded at once. See [`ReadGuard::repair`].
    fn repair(&self, held: &mut Self::Read<'_>, offset: usize, page: PageRef) -> bool;

    /// Starts an optimistic read of a page. See [`Space::optimistic`].
    ///
    /// # Errors
    /// As [`Space::optimistic`].
    fn optimistic(&self, page: &mut PageRef) -> Result<OptimisticGuard<'_>, PoolError>;

    /// Starts an optimistic read of a page that is in memory. See [`Space::optimistic_resident`].
    fn optimistic_resident(&self, page: &mut PageRef) -> Option<OptimisticGuard<'_>>;

    /// Prefetches the beginning of a page into the processor's caches. See [`Space::approach`].
    fn approach(&self, page: PageRef) {
        let _ = page;
    }

    /// Loads pages by batches of reads. See [`Space::load`].
    ///
    /// # Errors
    /// As [`Space::load`].
    fn load(&self, pages: &mut [PageRef]) -> Result<(), PoolError>;

    /// Readahead: starts to load pages. See [`Space::prefetch`].
    fn prefetch(&self, pages: &[PageRef]);

    /// Writes pages to the store and makes them durable. See [`Space::persist`].
    ///
    /// # Errors
    /// As [`Space::persist`].
    fn persist(&self, pages: &mut [PageRef]) -> Result<Vec<Stored>, PoolError>;

    /// Frees a page. See [`Space::free`].
    ///
    /// # Errors
    /// As [`Space::free`].
    fn free(&self, page: PageRef) -> Result<(), PoolError>;
}

impl Pages for Space {
    type Read<'a> = ReadGuard<'a>;
    type Write<'a> = WriteGuard<'a>;

    fn allocate(&self, len_bytes: usize) -> Result<(PageRef, WriteGuard<'_>), PoolError> {
        Space::allocate(self, len_bytes)
    }

    fn adopt(&self, stored: Stored) -> Result<PageRef, PoolError> {
        Space::adopt(self, stored)
    }

    fn read(&self, page: &mut PageRef) -> Result<ReadGuard<'_>, PoolError> {
        Space::read(self, page)
    }

    fn write(&self, page: &mut PageRef) -> Result<WriteGuard<'_>, PoolError> {
        Space::write(self, page)
    }

    fn repair(&self, held: &mut ReadGuard<'_>, offset: usize, page: PageRef) -> bool {
        held.repair(offset, page)
    }

    #[inline]
    fn optimistic(&self, page: &mut PageRef) -> Result<OptimisticGuard<'_>, PoolError> {
        Space::optimistic(self, page)
    }

    #[inline(always)]
    fn optimistic_resident(&self, page: &mut PageRef) -> Option<OptimisticGuard<'_>> {
        Space::optimistic_resident(self, page)
    }

    #[inline]
    fn approach(&self, page: PageRef) {
        Space::approach(self, page);
    }

    fn load(&self, pages: &mut [PageRef]) -> Result<(), PoolError> {
        Space::load(self, pages)
    }

    fn prefetch(&self, pages: &[PageRef]) {
        Space::prefetch(self, pages);
    }

    fn persist(&self, pages: &mut [PageRef]) -> Result<Vec<Stored>, PoolError> {
        Space::persist(self, pages)
    }

    fn free(&self, page: PageRef) -> Result<(), PoolError> {
        Space::free(self, page)
    }
}

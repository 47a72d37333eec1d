//! Page look-up in one map under one latch, as published, to measure its cost.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use terrace_pool::{OptimisticGuard, PageId, PageRef, Pages, PoolError};
use terrace_store::Stored;
use terrace_sys::sync::{read, write};

use crate::id_hash::IdHash;

type Frames = HashMap<PageId, PageRef, IdHash>;

/// Pages behind the mapping that Otaki et al. compare hints with (CIDR 2025, section 4): a map from
/// page to frame with one latch, held shared by every fix and exclusively while a page is created.
///
/// References carry no hint; the map has it. The latch of the map is never held while a thread
/// waits for that of a page.
#[derive(Clone)]
pub struct SingleLatch<P> {
    pages: P,
    frames: Arc<RwLock<Frames>>,
}

impl<P: Pages> SingleLatch<P> {
    /// Wraps `pages` behind an empty map.
    pub fn new(pages: P) -> Self {
        Self { pages, frames: Arc::default() }
    }

    fn shared(&self) -> RwLockReadGuard<'_, Frames> {
        read(&self.frames)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Frames> {
        write(&self.frames)
    }

    /// Adds the hint of the map to a reference.
    fn look_up(&self, page: PageRef) -> PageRef {
        self.shared().get(&page.id()).copied().unwrap_or(page.without_hint())
    }

    /// Fixes a page by the hint of the map, and corrects the map if the page was elsewhere.
    fn fix<T>(
        &self,
        page: PageRef,
        fix: impl FnOnce(&mut PageRef) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        let known = self.look_up(page);
        let mut found = known;
        let held = fix(&mut found)?;
        if found != known {
            self.exclusive().insert(found.id(), found);
        }
        Ok(held)
    }
}

impl<P: Pages> Pages for SingleLatch<P> {
    type Read<'a> = P::Read<'a>;
    type Write<'a> = P::Write<'a>;

    fn allocate(&self, len_bytes: usize) -> Result<(PageRef, P::Write<'_>), PoolError> {
        let mut frames = self.exclusive();
        let (page, held) = self.pages.allocate(len_bytes)?;
        frames.insert(page.id(), page);
        Ok((page.without_hint(), held))
    }

    fn adopt(&self, stored: Stored) -> Result<PageRef, PoolError> {
        Ok(self.pages.adopt(stored)?.without_hint())
    }

    fn read(&self, page: &mut PageRef) -> Result<P::Read<'_>, PoolError> {
        self.fix(*page, |page| self.pages.read(page))
    }

    fn write(&self, page: &mut PageRef) -> Result<P::Write<'_>, PoolError> {
        self.fix(*page, |page| self.pages.write(page))
    }

    /// There is no hint to repair.
    fn repair(&self, _held: &mut P::Read<'_>, _offset: usize, _page: PageRef) -> bool {
        false
    }

    fn optimistic(&self, page: &mut PageRef) -> Result<OptimisticGuard<'_>, PoolError> {
        self.fix(*page, |page| self.pages.optimistic(page))
    }

    fn optimistic_resident(&self, page: &mut PageRef) -> Option<OptimisticGuard<'_>> {
        self.pages.optimistic_resident(&mut self.look_up(*page))
    }

    fn load(&self, pages: &mut [PageRef]) -> Result<(), PoolError> {
        self.pages.load(&mut pages.to_vec())
    }

    fn prefetch(&self, pages: &[PageRef]) {
        self.pages.prefetch(pages);
    }

    fn persist(&self, pages: &mut [PageRef]) -> Result<Vec<Stored>, PoolError> {
        self.pages.persist(pages)
    }

    fn free(&self, page: PageRef) -> Result<(), PoolError> {
        self.exclusive().remove(&page.id());
        self.pages.free(page)
    }
}

impl<P: fmt::Debug> fmt::Debug for SingleLatch<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SingleLatch").field(&self.pages).finish()
    }
}

//! Pages without hints, to measure the gain of hints.

use terrace_pool::{OptimisticGuard, PageRef, Pages, PoolError};
use terrace_store::Stored;

/// Pages whose references carry no hint: every fix goes through the pool's page table.
#[derive(Clone, Debug)]
pub struct Unhinted<P>(pub P);

impl<P: Pages> Pages for Unhinted<P> {
    type Read<'a> = P::Read<'a>;
    type Write<'a> = P::Write<'a>;

    fn allocate(&self, len_bytes: usize) -> Result<(PageRef, P::Write<'_>), PoolError> {
        let (page, held) = self.0.allocate(len_bytes)?;
        Ok((page.without_hint(), held))
    }

    fn adopt(&self, stored: Stored) -> Result<PageRef, PoolError> {
        Ok(self.0.adopt(stored)?.without_hint())
    }

    fn read(&self, page: &mut PageRef) -> Result<P::Read<'_>, PoolError> {
        self.0.read(&mut page.without_hint())
    }

    fn write(&self, page: &mut PageRef) -> Result<P::Write<'_>, PoolError> {
        self.0.write(&mut page.without_hint())
    }

    /// There is no hint to repair.
    fn repair(&self, _held: &mut P::Read<'_>, _offset: usize, _page: PageRef) -> bool {
        false
    }

    fn optimistic(&self, page: &mut PageRef) -> Result<OptimisticGuard<'_>, PoolError> {
        self.0.optimistic(&mut page.without_hint())
    }

    fn optimistic_resident(&self, page: &mut PageRef) -> Option<OptimisticGuard<'_>> {
        self.0.optimistic_resident(&mut page.without_hint())
    }

    fn load(&self, pages: &mut [PageRef]) -> Result<(), PoolError> {
        self.0.load(&mut pages.to_vec())
    }

    fn prefetch(&self, pages: &[PageRef]) {
        self.0.prefetch(pages);
    }

    fn persist(&self, pages: &mut [PageRef]) -> Result<Vec<Stored>, PoolError> {
        self.0.persist(pages)
    }

    fn free(&self, page: PageRef) -> Result<(), PoolError> {
        self.0.free(page)
    }
}

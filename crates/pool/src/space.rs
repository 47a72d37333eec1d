//! Spaces: the owners of pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_store::Stored;

use crate::admission::admit_new;
use crate::allocate::take_frame;
use crate::core::Core;
use crate::error::PoolError;
use crate::fetch::{FETCH_PATIENCE, Fetch, NEED_PATIENCE};
use crate::fix::fix;
use crate::guard::{ReadGuard, WriteGuard};
use crate::hold::{self, Hold};
use crate::load::load_batch;
use crate::loader;
use crate::occupancy;
use crate::optimistic::{OptimisticGuard, find};
use crate::owner::Owner;
use crate::page::{PageId, PageRef, page_len};
use crate::persist::persist;
use crate::pool::Pool;
use crate::space_table::{SPACES_MAX, SpaceRecord};
use crate::state::PageState;

/// State shared by the clones of a [`Space`].
#[derive(Debug)]
struct SpaceInner {
    pool: Pool,
    /// The owner of the pages, as in `record`.
    owner: Owner,
    record: Arc<SpaceRecord>,
}

/// A set of pages with an owner, a name and a grant. Clones share one space.
///
/// Dropping the last clone frees the space's temporary pages, those still pinned with their last
/// pin. Durable pages only leave memory: their bytes stay on the store.
#[derive(Clone, Debug)]
pub struct Space(Arc<SpaceInner>);

impl Pool {
    /// Registers an owner of pages. Once the owner holds more than `grant_bytes` of memory, its
    /// pages are evicted before those of owners within their grants.
    ///
    /// # Errors
    /// [`PoolError::Config`] if all 65,535 space ids are in use, by live spaces or by dropped
    /// spaces with pages in memory.
    pub fn create_space(
        &self,
        name: impl Into<String>,
        grant_bytes: Option<u64>,
    ) -> Result<Space, PoolError> {
        let name = name.into();
        let core = self.core();
        let record = core.spaces.open(&name, grant_bytes).ok_or_else(|| {
            let reason =
                format!("{SPACES_MAX} spaces live already; drop one before opening {name}");
            PoolError::config(&core.name, reason)
        })?;
        let (pool, owner) = (self.clone(), record.owner());
        Ok(Space(Arc::new(SpaceInner { pool, owner, record })))
    }
}

impl Space {
    #[inline]
    fn core(&self) -> &Arc<Core> {
        self.0.pool.core()
    }

    #[inline]
    fn owner(&self) -> Owner {
        self.0.owner
    }

    /// Returns the space's name.
    pub fn name(&self) -> &str {
        self.0.record.name()
    }

    /// Returns the pool of the space's pages.
    pub fn pool_handle(&self) -> &Pool {
        &self.0.pool
    }

    /// Returns the bytes of this space's pages in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.core().spaces.resident(self.owner().space())
    }

    /// Changes the grant: the bytes that the space may hold in memory before its pages are
    /// preferred as victims.
    pub fn set_grant(&self, grant_bytes: Option<u64>) {
        self.core().spaces.set_grant(self.owner().space(), grant_bytes);
    }

    /// Allocates a page of `len_bytes`, rounded up to 4 KiB, all zero, held for writing.
    ///
    /// # Errors
    /// [`PoolError::PageSize`] outside 1 byte to 16 MiB; [`PoolError::Exhausted`] if no frame comes
    /// free within the pool's timeout; [`PoolError::Store`] if neither memory nor store has room
    /// for one page more; [`PoolError::PageIds`] if all page ids are in use.
    pub fn allocate(&self, len_bytes: usize) -> Result<(PageRef, WriteGuard<'_>), PoolError> {
        self.allocate_until(len_bytes, self.core().deadline())
    }

    /// Like [`Space::allocate`], but does not wait for other threads to release frames. It may
    /// write pages to the store to get a frame.
    ///
    /// # Errors
    /// As [`Space::allocate`]; [`PoolError::Exhausted`] at once if every frame is held.
    pub fn try_allocate(&self, len_bytes: usize) -> Result<(PageRef, WriteGuard<'_>), PoolError> {
        self.allocate_until(len_bytes, Instant::now())
    }

    fn allocate_until(
        &self,
        len_bytes: usize,
        deadline: Instant,
    ) -> Result<(PageRef, WriteGuard<'_>), PoolError> {
        let core = self.core();
        let too_large = || PoolError::page_size(&core.name, len_bytes, u64::MAX);
        let len = page_len(len_bytes).ok_or_else(too_large)?;
        core.pages.note_length(len);
        admit_new(core, len)?;
        let page = self.take_id(len)?;
        let taken = match take_frame(core, page, len, deadline) {
            Ok(taken) => taken,
            Err(error) => {
                self.0.record.ids().put_back(core.stride(len), page);
                return Err(error);
            }
        };
        let entry = &core.pages[page];
        entry.reset(self.owner(), len);
        occupancy::occupy(core, taken.frame, page, self.owner().space(), len, false);
        core.frames[taken.frame].set_dirty();
        core.backlog.add_unbacked(len);
        entry.state.step(&core.lot, PageState::Free, PageState::Resident(taken.frame));
        let mut guard = WriteGuard::new(core, taken.frame);
        occupancy::settle_memory(core, taken.frame, len);
        guard[..taken.stale].fill(0);
        Ok((PageRef::new(page, Some(taken.frame)), guard))
    }

    /// Creates a page for an extent that is on the store already and that a directory refers to:
    /// durable, clean, not in memory yet.
    ///
    /// # Errors
    /// [`PoolError::PageSize`] if the extent does not have a page's length; [`PoolError::NoStore`];
    /// [`PoolError::PageIds`].
    pub fn adopt(&self, stored: Stored) -> Result<PageRef, PoolError> {
        let core = self.core();
        core.need_store()?;
        let len = usize::try_from(stored.extent.len_bytes).unwrap_or(usize::MAX);
        if page_len(len) != Some(len) {
            return Err(PoolError::page_size(&core.name, len, u64::MAX));
        }
        core.pages.note_length(len);
        let page = self.take_id(len)?;
        let entry = &core.pages[page];
        entry.reset(self.owner(), len);
        entry.set_durable();
        entry.set_stored(Some(stored));
        entry.state.step(&core.lot, PageState::Free, PageState::Stored);
        Ok(PageRef::new(page, None))
    }

    /// Fixes a page for reading, loading it on a miss.
    ///
    /// # Errors
    /// [`PoolError::NoSuchPage`], [`PoolError::WrongSpace`] for a page of another space,
    /// [`PoolError::Exhausted`], [`PoolError::LatchTimeout`], and [`PoolError::Store`] if the bytes
    /// cannot be read or differ from those written.
    pub fn read(&self, page: &mut PageRef) -> Result<ReadGuard<'_>, PoolError> {
        let frame = fix(self.core(), page, self.owner(), Hold::Shared)?;
        Ok(ReadGuard::new(self.core(), frame))
    }

    /// Fixes a page for writing, loading it on a miss.
    ///
    /// # Errors
    /// As [`Space::read`], and [`PoolError::Durable`] for a durable page.
    pub fn write(&self, page: &mut PageRef) -> Result<WriteGuard<'_>, PoolError> {
        let core = self.core();
        let frame = fix(core, page, self.owner(), Hold::Exclusive)?;
        WriteGuard::begin(core, page.id(), frame)
    }

    /// Starts an optimistic read of a page, without holding it, loading it on a miss; see
    /// [`OptimisticGuard`].
    ///
    /// # Errors
    /// As [`Space::read`].
    #[inline]
    pub fn optimistic(&self, page: &mut PageRef) -> Result<OptimisticGuard<'_>, PoolError> {
        find::optimistic(self.core(), page, self.owner())
    }

    /// Like [`Space::optimistic`], but gives `None` where that would wait or fail: the page is not
    /// in memory, is being written, or belongs to another space.
    #[inline(always)]
    pub fn optimistic_resident(&self, page: &mut PageRef) -> Option<OptimisticGuard<'_>> {
        find::optimistic_resident(self.core(), page, self.owner())
    }

    /// Prefetches the beginning of a page into the processor's caches, if the page's hint is right
    /// and it is in DRAM: for callers with other work to do before they read the page. Costs a few
    /// nanoseconds.
    #[inline]
    pub fn approach(&self, page: PageRef) {
        find::approach(self.core(), page);
    }

    /// Loads those of the pages that are neither in memory nor being loaded, by batches of reads
    /// that the calling thread waits for, and repairs their hints. The pages are not pinned: they
    /// may be evicted before the caller fixes them, which then loads them again.
    ///
    /// # Errors
    /// As [`Space::read`], for the first page that failed; the others are loaded.
    pub fn load(&self, pages: &mut [PageRef]) -> Result<(), PoolError> {
        load_batch(self.core(), pages, self.owner())
    }

    /// Loads pages by batched reads and pins them; see [`Fetch`].
    pub fn fetch(&self, pages: &[PageRef]) -> Fetch {
        self.start_fetch(pages, FETCH_PATIENCE)
    }

    /// Like [`Space::fetch`], but for pages without which the caller cannot proceed: waits three
    /// times as long for frames, long enough to get one from the pool's overdraft.
    pub fn fetch_needed(&self, pages: &[PageRef]) -> Fetch {
        self.start_fetch(pages, NEED_PATIENCE)
    }

    /// Readahead: starts to load pages and does not wait. A page that cannot be read stays on the
    /// store: the fix that needs it reports the error.
    pub fn prefetch(&self, pages: &[PageRef]) {
        loader::prefetch(self.core(), self.0.pool.queue(), pages, self.owner());
    }

    /// Writes pages to the store in one batch and makes them durable. Returns the location of each.
    ///
    /// The bytes survive a crash once the store was synced. A durable page is immutable, and it
    /// outlives its space.
    ///
    /// # Errors
    /// [`PoolError::Store`] if a write failed: then no page has become durable.
    /// [`PoolError::NoSuchPage`], [`PoolError::WrongSpace`], [`PoolError::NoStore`];
    /// [`PoolError::LatchTimeout`] if a writer holds one of the pages for the pool's timeout.
    pub fn persist(&self, pages: &mut [PageRef]) -> Result<Vec<Stored>, PoolError> {
        persist(self.core(), pages, self.owner())
    }

    /// Frees a page and its extent, now or when its last pin is dropped. Does nothing if the page
    /// was freed already and no page has its id. A space reuses ids, so a caller must not free a
    /// page twice: that could free a newer page.
    ///
    /// # Errors
    /// [`PoolError::WrongSpace`] for a page of another space, which is not freed.
    pub fn free(&self, page: PageRef) -> Result<(), PoolError> {
        let core = self.core();
        core.check_owner(page.id(), self.owner())?;
        hold::free(core, page.id());
        Ok(())
    }

    /// Returns the memory tier of a page of this space at this moment, if it is in memory.
    pub fn tier_of(&self, page: PageRef) -> Option<usize> {
        let core = self.core();
        core.check_owner(page.id(), self.owner()).ok()?;
        match core.pages.find(page.id())?.state.get() {
            PageState::Resident(frame) => Some(core.frames[frame].tier()),
            PageState::Free | PageState::Stored | PageState::Loading => None,
        }
    }

    fn start_fetch(&self, pages: &[PageRef], patience: Duration) -> Fetch {
        loader::fetch(self.core(), self.0.pool.queue(), pages, self.owner(), patience)
    }

    fn take_id(&self, len: usize) -> Result<PageId, PoolError> {
        let core = self.core();
        let (stride, limit) = (core.stride(len), core.pages.capacity());
        let is_free = |page| core.pages[page].state.get() == PageState::Free;
        let new_block = || {
            let block = core.id_blocks.take(stride, limit, is_free);
            block.ok_or_else(|| PoolError::PageIds { pool: core.name.clone(), limit })
        };
        self.0.record.ids().take(stride, new_block)
    }
}

impl Drop for SpaceInner {
    fn drop(&mut self) {
        let core = self.pool.core();
        core.spaces.close(self.owner);
        self.record.ids().close(&core.id_blocks, |page| {
            let entry = &core.pages[page];
            if entry.state.get() == PageState::Free {
                return;
            }
            // A durable page leaves memory without its extent.
            if entry.is_durable() {
                entry.set_forgotten();
            }
            hold::free(core, page);
        });
        core.spaces.put_back(self.owner);
    }
}

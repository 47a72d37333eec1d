//! Spaces: the owners of pages.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use terrace_store::Stored;

use crate::array::{Zeroed, ZeroedArray};
use crate::error::PoolError;
use crate::fix::Hold;
use crate::guard::{ReadGuard, WriteGuard};
use crate::load::{FETCH_PATIENCE, Fetch, NEED_PATIENCE};
use crate::optimistic::OptimisticGuard;
use crate::page::{CLASSES, FrameId, PageId, PageRef, class_of, page_len};
use crate::pool::{Inner, Pool};
use crate::state::PageState;
use crate::sync::lock;

/// Minimum number of page ids that a space takes at a time.
const BLOCK_IDS: u64 = 64;
/// Maximum number of spaces of a pool; a frame stores its space in 32 bits, and the table is small.
const SPACES_MAX: usize = 1 << 16;

/// Resident bytes and grant of a space, read by eviction.
#[derive(Debug)]
struct SpaceUse {
    resident: AtomicU64,
    grant: AtomicU64,
}

// SAFETY: atomics alone, valid as zeroes, nothing to drop.
unsafe impl Zeroed for SpaceUse {}

/// Resident bytes and grants by space id, and allocation of space ids and blocks of page ids.
#[derive(Debug)]
pub(crate) struct SpaceTable {
    uses: ZeroedArray<SpaceUse>,
    begun: AtomicU32,
    /// Ids of dropped spaces, reused when their last pinned page is gone.
    free: Mutex<VecDeque<u32>>,
    serial: AtomicU32,
    next_id: AtomicU64,
    /// Blocks of dropped spaces by stride, reused when all their pages are gone.
    blocks: Mutex<[VecDeque<u64>; CLASSES]>,
}

impl SpaceTable {
    pub(crate) fn reserve() -> io::Result<Self> {
        Ok(Self {
            uses: ZeroedArray::reserve(SPACES_MAX)?,
            begun: AtomicU32::new(1),
            free: Mutex::default(),
            serial: AtomicU32::new(0),
            next_id: AtomicU64::new(0),
            blocks: Mutex::default(),
        })
    }

    fn of(&self, space: u32) -> &SpaceUse {
        match self.uses.get(space as usize) {
            Some(uses) => uses,
            None => unreachable!("space {space} of {SPACES_MAX}"),
        }
    }

    pub(crate) fn came(&self, space: u32, bytes: u64) {
        self.of(space).resident.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn left(&self, space: u32, bytes: u64) {
        self.of(space).resident.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn resident(&self, space: u32) -> u64 {
        self.of(space).resident.load(Ordering::Relaxed)
    }

    pub(crate) fn grant(&self, space: u32) -> Option<u64> {
        self.of(space).grant.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Resident bytes divided by the grant; 0 without a grant.
    pub(crate) fn grant_use(&self, space: u32) -> f64 {
        let grant = self.grant(space);
        grant.map_or(0.0, |grant| self.resident(space) as f64 / grant.max(1) as f64)
    }

    fn set_grant(&self, space: u32, grant: Option<u64>) {
        let word = grant.map_or(0, |grant| grant.saturating_add(1));
        self.of(space).grant.store(word, Ordering::Relaxed);
    }

    fn reuse(&self) -> Option<u32> {
        let mut free = lock(&self.free);
        // Ids whose pages are still pinned go to the back of the queue, so that eight of them do
        // not hide the others for ever.
        for _ in 0..free.len().min(8) {
            let id = free.pop_front()?;
            if self.resident(id) == 0 {
                return Some(id);
            }
            free.push_back(id);
        }
        None
    }

    fn open(&self, grant: Option<u64>) -> Option<u32> {
        let id = self.reuse().or_else(|| {
            let next = |id: u32| ((id as usize) < SPACES_MAX).then_some(id + 1);
            self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
        })?;
        self.set_grant(id, grant);
        Some(id)
    }
}

/// A space's id and serial number, as stored in the page-table entry. The serial distinguishes
/// spaces that reuse an id (ABA).
pub(crate) type Owner = (u32, u32);

/// Distance between the ids of pages of one length, as a power of two: 1, or in a mapped pool,
/// where an id determines the address, as many as the length's class has units of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stride(usize);

impl Stride {
    fn ids(self) -> u64 {
        1 << self.0
    }

    /// Number of ids in a block, enough for one page or more.
    fn block(self) -> u64 {
        BLOCK_IDS.max(self.ids())
    }

    fn pages_of(self, block: u64) -> impl Iterator<Item = PageId> {
        (block..block + self.block()).step_by(1 << self.0).map(PageId)
    }
}

/// Page ids of a space with one stride.
#[derive(Debug, Default)]
struct Ids {
    /// First id of each block.
    blocks: Vec<u64>,
    /// Number of ids of the last block used so far.
    begun: u64,
    free: Vec<PageId>,
}

/// State shared by the clones of a [`Space`].
#[derive(Debug)]
pub(crate) struct SpaceInner {
    pub(crate) pool: Pool,
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Distinguishes this space from earlier ones with the same id.
    serial: u32,
    ids: Mutex<[Ids; CLASSES]>,
}

/// A set of pages with an owner, a name and a grant. Clones share one space.
///
/// Dropping the last clone frees the space's temporary pages, those still pinned with their last
/// pin. Durable pages only leave memory: their bytes stay on the store.
#[derive(Clone, Debug)]
pub struct Space(Arc<SpaceInner>);

impl Space {
    pub(crate) fn create(pool: Pool, name: String, grant: Option<u64>) -> Result<Self, PoolError> {
        let id = pool.inner.spaces.open(grant).ok_or_else(|| PoolError::Config {
            pool: pool.inner.name.clone(),
            reason: format!("{SPACES_MAX} spaces live already; drop one before opening {name}"),
        })?;
        let serial = pool.inner.spaces.serial.fetch_add(1, Ordering::Relaxed);
        let space = Arc::new(SpaceInner { pool, id, name, serial, ids: Mutex::default() });
        lock(&space.pool.inner.names).insert(id, Arc::downgrade(&space));
        Ok(Self(space))
    }

    fn pool(&self) -> &Arc<Inner> {
        &self.0.pool.inner
    }

    #[inline]
    fn owner(&self) -> Owner {
        (self.0.id, self.0.serial)
    }

    /// Returns the owner's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the pool of the space's pages.
    pub fn pool_handle(&self) -> &Pool {
        &self.0.pool
    }

    /// Returns the bytes of this space's pages in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.pool().spaces.resident(self.0.id)
    }

    /// Changes the grant: the bytes that the space may hold in memory before its pages are
    /// preferred as victims.
    pub fn set_grant(&self, grant_bytes: Option<u64>) {
        self.pool().spaces.set_grant(self.0.id, grant_bytes);
    }

    /// Allocates a page of `len_bytes`, rounded up to 4 KiB, all zero, held for writing.
    ///
    /// # Errors
    /// [`PoolError::PageSize`] outside 1 byte to 16 MiB; [`PoolError::Exhausted`] if no frame comes
    /// free within the pool's timeout; [`PoolError::Store`] if neither memory nor store has room
    /// for one page more; [`PoolError::PageIds`] if all page ids are in use.
    pub fn allocate(&self, len_bytes: usize) -> Result<(PageRef, WriteGuard<'_>), PoolError> {
        self.allocate_until(len_bytes, self.pool().deadline())
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
        let pool = self.pool();
        let too_large = || PoolError::page_size(&pool.name, len_bytes, u64::MAX);
        let len = page_len(len_bytes).ok_or_else(too_large)?;
        pool.note_length(len);
        pool.admit_new(len)?;
        let page = self.take_id(len)?;
        let taken = match pool.take_frame(page, len, deadline) {
            Ok(taken) => taken,
            Err(error) => {
                lock(&self.0.ids)[pool.stride(len).0].free.push(page);
                return Err(error);
            }
        };
        let entry = &pool.pages[page];
        entry.reset(self.0.id, self.0.serial, len);
        pool.occupy(taken.frame, page, self.0.id, len, false);
        let frame = &pool.frames[taken.frame];
        frame.dirty.store(true, Ordering::Relaxed);
        pool.unbacked.fetch_add(len as u64, Ordering::Relaxed);
        entry.state.step(&pool.lot, PageState::Free, PageState::Resident(taken.frame));
        let mut guard = WriteGuard::new(pool, taken.frame);
        pool.settle_memory(taken.frame, len);
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
        let pool = self.pool();
        pool.store()?;
        let len = usize::try_from(stored.extent.len_bytes).unwrap_or(usize::MAX);
        if page_len(len) != Some(len) {
            return Err(PoolError::page_size(&pool.name, len, u64::MAX));
        }
        pool.note_length(len);
        let page = self.take_id(len)?;
        let entry = &pool.pages[page];
        entry.reset(self.0.id, self.0.serial, len);
        entry.set_durable();
        entry.set_stored(Some(stored));
        entry.state.step(&pool.lot, PageState::Free, PageState::Stored);
        Ok(PageRef::new(page, None))
    }

    /// Fixes a page for reading, loading it on a miss.
    ///
    /// # Errors
    /// [`PoolError::NoSuchPage`], [`PoolError::WrongSpace`] for a page of another space,
    /// [`PoolError::Exhausted`], [`PoolError::LatchTimeout`], and [`PoolError::Store`] if the bytes
    /// cannot be read or differ from those written.
    pub fn read(&self, page: &mut PageRef) -> Result<ReadGuard<'_>, PoolError> {
        let frame = self.pool().fix(page, self.owner(), Hold::Shared)?;
        Ok(ReadGuard::new(self.pool(), frame))
    }

    /// Fixes a page for writing, loading it on a miss.
    ///
    /// # Errors
    /// As [`Space::read`], and [`PoolError::Durable`] for a durable page.
    pub fn write(&self, page: &mut PageRef) -> Result<WriteGuard<'_>, PoolError> {
        let pool = self.pool();
        let frame = pool.fix(page, self.owner(), Hold::Exclusive)?;
        pool.begin_write(page.id(), frame)
    }

    /// Starts an optimistic read of a page, without holding it, loading it on a miss; see
    /// [`OptimisticGuard`].
    ///
    /// # Errors
    /// As [`Space::read`].
    #[inline]
    pub fn optimistic(&self, page: &mut PageRef) -> Result<OptimisticGuard<'_>, PoolError> {
        self.pool().optimistic(page, self.owner())
    }

    /// Like [`Space::optimistic`], but gives `None` where that would wait or fail: the page is not
    /// in memory, is being written, or belongs to another space.
    #[inline(always)]
    pub fn optimistic_resident(&self, page: &mut PageRef) -> Option<OptimisticGuard<'_>> {
        self.pool().optimistic_resident(page, self.owner())
    }

    /// Prefetches the beginning of a page into the processor's caches, if the page's hint is right
    /// and it is in DRAM: for callers with other work to do before they read the page. Costs a few
    /// nanoseconds.
    #[inline]
    pub fn approach(&self, page: PageRef) {
        self.pool().approach(page);
    }

    /// Loads those of the pages that are neither in memory nor being loaded, by batches of reads
    /// that the calling thread waits for, and repairs their hints. The pages are not pinned: they
    /// may be evicted before the caller fixes them, which then loads them again.
    ///
    /// # Errors
    /// As [`Space::read`], for the first page that failed; the others are loaded.
    pub fn load(&self, pages: &mut [PageRef]) -> Result<(), PoolError> {
        self.pool().load_batch(pages, self.owner())
    }

    /// Loads pages by batched reads and pins them; see [`Fetch`].
    pub fn fetch(&self, pages: &[PageRef]) -> Fetch {
        Fetch::start(self.pool(), pages, self.owner(), FETCH_PATIENCE)
    }

    /// Like [`Space::fetch`], but for pages without which the caller cannot proceed: waits three
    /// times as long for frames, long enough to get one from the pool's overdraft.
    pub fn fetch_needed(&self, pages: &[PageRef]) -> Fetch {
        Fetch::start(self.pool(), pages, self.owner(), NEED_PATIENCE)
    }

    /// Readahead: starts to load pages and does not wait. A page that cannot be read stays on the
    /// store: the fix that needs it reports the error.
    pub fn prefetch(&self, pages: &[PageRef]) {
        self.pool().prefetch(pages, self.owner());
    }

    /// Writes pages to the store in one batch and makes them durable. Returns the location of each.
    ///
    /// The bytes survive a crash once the store was synced. A durable page is immutable, and it
    /// outlives its space.
    ///
    /// # Errors
    /// [`PoolError::Store`] if a write failed: then no page has become durable.
    /// [`PoolError::NoSuchPage`], [`PoolError::WrongSpace`], [`PoolError::NoStore`].
    pub fn persist(&self, pages: &mut [PageRef]) -> Result<Vec<Stored>, PoolError> {
        self.pool().persist(pages, self.owner())
    }

    /// Frees a page and its extent, now or when its last pin is dropped. Does nothing if the page
    /// is gone already.
    ///
    /// # Errors
    /// [`PoolError::WrongSpace`] for a page of another space, which is not freed.
    pub fn free(&self, page: PageRef) -> Result<(), PoolError> {
        let pool = self.pool();
        pool.check_owner(page.id(), self.owner())?;
        pool.free(page.id());
        Ok(())
    }

    /// Returns the memory tier of a page of this space at this moment, if it is in memory.
    pub fn tier_of(&self, page: PageRef) -> Option<usize> {
        let pool = self.pool();
        pool.check_owner(page.id(), self.owner()).ok()?;
        match pool.pages.find(page.id())?.state.get() {
            PageState::Resident(frame) => Some(pool.frames[frame].tier()),
            PageState::Free | PageState::Stored | PageState::Loading => None,
        }
    }

    fn take_id(&self, len: usize) -> Result<PageId, PoolError> {
        let pool = self.pool();
        let stride = pool.stride(len);
        let ids = &mut lock(&self.0.ids)[stride.0];
        if let Some(page) = ids.free.pop() {
            return Ok(page);
        }
        if ids.blocks.is_empty() || ids.begun == stride.block() {
            let block = pool.take_block(stride)?;
            ids.blocks.push(block);
            ids.begun = 0;
        }
        let block = ids.blocks[ids.blocks.len() - 1];
        ids.begun += stride.ids();
        Ok(PageId(block + ids.begun - stride.ids()))
    }
}

impl Inner {
    /// Turns the exclusive hold on the page's frame into a guard and marks the page dirty. Releases
    /// the hold of a durable page, which must not be written.
    pub(crate) fn begin_write(
        self: &Arc<Self>,
        page: PageId,
        id: FrameId,
    ) -> Result<WriteGuard<'_>, PoolError> {
        let guard = WriteGuard::new(self, id);
        if self.pages[page].is_durable() {
            return Err(PoolError::Durable { pool: self.name.clone(), page });
        }
        self.frames[id].dirty.store(true, Ordering::Relaxed);
        Ok(guard)
    }

    fn note_length(&self, len: usize) {
        if len > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(len, Ordering::Relaxed);
        }
    }

    fn stride(&self, len: usize) -> Stride {
        Stride(if self.range.is_some() { class_of(len) } else { 0 })
    }

    /// Allocates a block of ids: one whose pages are all gone, or one never used.
    fn take_block(&self, stride: Stride) -> Result<u64, PoolError> {
        let blocks = &mut lock(&self.spaces.blocks)[stride.0];
        // A block with a page still in use goes to the back of the queue, so it costs one check per
        // call.
        for _ in 0..blocks.len().min(8) {
            let Some(block) = blocks.pop_front() else { break };
            if stride.pages_of(block).all(|page| self.pages[page].state.get() == PageState::Free) {
                return Ok(block);
            }
            blocks.push_back(block);
        }
        let limit = self.pages.capacity();
        let mut block = 0;
        let next = |id: u64| {
            // Blocks are aligned to their length.
            block = id.next_multiple_of(stride.block());
            let end = block + stride.block();
            (end <= limit).then_some(end)
        };
        let next_id = &self.spaces.next_id;
        match next_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(block),
            Err(_) => Err(PoolError::PageIds { pool: self.name.clone(), limit }),
        }
    }

    /// Returns a freed page's id to its space, if the space is alive.
    pub(crate) fn return_id(&self, (space, serial): Owner, page: PageId) {
        let space = lock(&self.names).get(&space).and_then(Weak::upgrade);
        if let Some(space) = space.filter(|space| space.serial == serial) {
            // The entry keeps its length until the id names another page.
            let stride = self.stride(self.pages[page].len());
            lock(&space.ids)[stride.0].free.push(page);
        }
    }

    pub(crate) fn space_name(&self, space: u32) -> String {
        let space = lock(&self.names).get(&space).and_then(Weak::upgrade);
        space.map_or_else(|| "a dropped space".to_owned(), |space| space.name.clone())
    }

    /// Returns the name of a space, checked by its serial number: another space may have its id by
    /// now.
    pub(crate) fn owner_name(&self, (space, serial): Owner) -> String {
        let space = lock(&self.names).get(&space).and_then(Weak::upgrade);
        let space = space.filter(|space| space.serial == serial);
        space.map_or_else(|| "a dropped space".to_owned(), |space| space.name.clone())
    }

    /// Drops a durable page from memory without touching its extent.
    fn forget(self: &Arc<Self>, page: PageId) {
        self.pages[page].set_forgotten();
        self.free(page);
    }
}

impl Drop for SpaceInner {
    fn drop(&mut self) {
        let pool = Arc::clone(&self.pool.inner);
        lock(&pool.names).remove(&self.id);
        let ids = std::mem::take(&mut *lock(&self.ids));
        for (class, ids) in ids.into_iter().enumerate() {
            for page in ids.blocks.iter().copied().flat_map(|block| Stride(class).pages_of(block)) {
                if pool.pages[page].state.get() == PageState::Free {
                    continue;
                }
                if pool.pages[page].is_durable() {
                    pool.forget(page);
                } else {
                    pool.free(page);
                }
            }
            lock(&pool.spaces.blocks)[class].extend(ids.blocks);
        }
        lock(&pool.spaces.free).push_back(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_spaces_hide_no_free_ids() {
        let table = SpaceTable::reserve().expect("address space");
        let ids: Vec<u32> = (0..12).filter_map(|_| table.open(None)).collect();
        ids[..11].iter().for_each(|id| table.came(*id, 4096));
        lock(&table.free).extend(&ids);
        assert!((0..2).any(|_| table.reuse() == Some(ids[11])), "the second look is at the others");
    }
}

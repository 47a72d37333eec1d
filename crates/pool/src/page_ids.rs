//! Page ids: blocks of the pool, and the ids that each space takes from its blocks.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::{CLASSES, PageId, class_of};
use crate::sync::lock;

/// Minimum number of page ids that a space takes at a time.
const BLOCK_IDS: u64 = 64;

/// Distance between the ids of pages of one length, as a power of two: 1, or in a mapped pool,
/// where an id determines the address, as many as the length's class has units of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stride(usize);

impl Stride {
    /// Returns the stride of pages of `len` bytes.
    pub(crate) fn of(len: usize, is_mapped: bool) -> Self {
        Self(if is_mapped { class_of(len) } else { 0 })
    }

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

/// Blocks of page ids that no space has.
#[derive(Debug, Default)]
pub(crate) struct IdBlocks {
    /// Lowest id that was never in a block.
    next: AtomicU64,
    /// Blocks of dropped spaces by stride, reused when all their pages are gone.
    dropped: Mutex<[VecDeque<u64>; CLASSES]>,
}

impl IdBlocks {
    /// Takes a block of ids: one whose pages are all free, or one never used, below `limit`. `None`
    /// if there is none.
    pub(crate) fn take(
        &self,
        stride: Stride,
        limit: u64,
        is_free: impl Fn(PageId) -> bool,
    ) -> Option<u64> {
        let blocks = &mut lock(&self.dropped)[stride.0];
        // A block with a page still in use goes to the back of the queue, so it costs one check per
        // call.
        for _ in 0..blocks.len().min(8) {
            let Some(block) = blocks.pop_front() else { break };
            if stride.pages_of(block).all(&is_free) {
                return Some(block);
            }
            blocks.push_back(block);
        }
        let mut block = 0;
        let next = |id: u64| {
            // Blocks are aligned to their length.
            block = id.next_multiple_of(stride.block());
            let end = block + stride.block();
            (end <= limit).then_some(end)
        };
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|_| block)
    }

    /// Takes back the blocks of a dropped space, some of whose pages may still be in use.
    fn put_back(&self, stride: Stride, blocks: Vec<u64>) {
        lock(&self.dropped)[stride.0].extend(blocks);
    }
}

/// Page ids that a space has taken from the pool, all of one stride.
#[derive(Debug, Default)]
struct Ids {
    /// First id of each block.
    blocks: Vec<u64>,
    /// Number of ids of the last block that were handed out so far.
    begun: u64,
    free: Vec<PageId>,
}

/// Page ids of a space.
#[derive(Debug, Default)]
pub(crate) struct SpaceIds(Mutex<[Ids; CLASSES]>);

impl SpaceIds {
    /// Takes an id that no page has, from a block of `new_block` if the space has none left.
    ///
    /// # Errors
    /// Those of `new_block`.
    pub(crate) fn take<E>(
        &self,
        stride: Stride,
        new_block: impl FnOnce() -> Result<u64, E>,
    ) -> Result<PageId, E> {
        let ids = &mut lock(&self.0)[stride.0];
        if let Some(page) = ids.free.pop() {
            return Ok(page);
        }
        if ids.blocks.is_empty() || ids.begun == stride.block() {
            let block = new_block()?;
            ids.blocks.push(block);
            ids.begun = 0;
        }
        let block = ids.blocks[ids.blocks.len() - 1];
        ids.begun += stride.ids();
        Ok(PageId(block + ids.begun - stride.ids()))
    }

    /// Takes back an id that no page has any more.
    pub(crate) fn put_back(&self, stride: Stride, page: PageId) {
        lock(&self.0)[stride.0].free.push(page);
    }

    /// Gives all blocks back to the pool, after calling `each` with every id of them.
    pub(crate) fn close(&self, blocks: &IdBlocks, each: impl Fn(PageId)) {
        let ids = std::mem::take(&mut *lock(&self.0));
        for (stride, ids) in ids.into_iter().enumerate() {
            let stride = Stride(stride);
            ids.blocks.iter().flat_map(|block| stride.pages_of(*block)).for_each(&each);
            blocks.put_back(stride, ids.blocks);
        }
    }
}

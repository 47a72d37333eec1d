//! Which blocks of a region hold pages that an arena uses: the others need not be kept.

use std::sync::{Arc, Mutex};

use terrace_region::{Advice, Region};
use terrace_sys::size::{PAGE_BYTES, to_u64};

use crate::lock;

/// Pages in use by blocks, of those blocks that lie in a heap's part of a region as a whole.
/// Nothing here allocates after it was made: hooks call it.
#[derive(Debug)]
pub(crate) struct UsedBlocks {
    region: Arc<Region>,
    block_pages: usize,
    /// Pages of the region before the heap's first.
    before: usize,
    /// The number of the first block, and the pages in use of each.
    first: usize,
    used: Mutex<Box<[u32]>>,
}

impl UsedBlocks {
    /// Of a heap whose first page is that after `before` in its region.
    pub(crate) fn new(region: Arc<Region>, before: usize, pages: usize) -> Self {
        let block_pages = region.block_bytes() / PAGE_BYTES;
        let first = before.div_ceil(block_pages);
        let count = ((before + pages) / block_pages).saturating_sub(first);
        let used = Mutex::new(vec![0; count].into_boxed_slice());
        let blocks = Self { region, block_pages, before, first, used };
        // Whatever was said of them before, those at its ends included.
        blocks.tell_pages(before, pages);
        blocks
    }

    /// The heap has ended: what is left of it leaves memory, and who has the region may use it.
    pub(crate) fn end(&self) {
        let pages = lock(&self.used).len() * self.block_pages;
        let start = self.first * self.block_pages;
        let (offset, len) = (to_u64(start * PAGE_BYTES), to_u64(pages * PAGE_BYTES));
        if let Err(error) = self.region.evict(offset, len) {
            tracing::warn!(region = self.region.name(), %error, "an ended heap stays in memory");
        }
        self.tell_pages(start, pages);
    }

    fn tell_pages(&self, start: usize, pages: usize) {
        let (offset, len) = (to_u64(start * PAGE_BYTES), to_u64(pages * PAGE_BYTES));
        let told = self.region.advise(offset, len, Advice::Used);
        debug_assert!(told.is_ok(), "pages of the heap are the region's: {told:?}");
    }

    /// Pages are used from here on; said before anybody writes to them.
    pub(crate) fn take(&self, page: usize, count: usize) {
        self.change(page, count, Advice::Used, |used, pages| {
            let was_unused = *used == 0;
            *used += pages;
            was_unused
        });
    }

    /// Pages are not used any more; said while nobody else can have them.
    pub(crate) fn give(&self, page: usize, count: usize) {
        self.change(page, count, Advice::Unused, |used, pages| {
            debug_assert!(*used >= pages, "pages given that were not taken");
            *used = used.saturating_sub(pages);
            *used == 0
        });
    }

    /// Changes the count of each block, and tells the region of runs of those that it is said of.
    fn change(
        &self,
        page: usize,
        count: usize,
        advice: Advice,
        change: impl Fn(&mut u32, u32) -> bool,
    ) {
        let (start, end) = (self.before + page, self.before + page + count);
        let mut used = lock(&self.used);
        let blocks = (start / self.block_pages).max(self.first)
            ..end.div_ceil(self.block_pages).min(self.first + used.len());
        let mut told = blocks.start;
        for block in blocks.clone() {
            let pages =
                end.min((block + 1) * self.block_pages) - start.max(block * self.block_pages);
            let pages = u32::try_from(pages).unwrap_or(u32::MAX);
            if !change(&mut used[block - self.first], pages) {
                self.tell(told, block, advice);
                told = block + 1;
            }
        }
        self.tell(told, blocks.end, advice);
    }

    fn tell(&self, first: usize, end: usize, advice: Advice) {
        if first >= end {
            return;
        }
        let block = to_u64(self.block_pages * PAGE_BYTES);
        let (offset, len) = (to_u64(first) * block, to_u64(end - first) * block);
        let told = self.region.advise(offset, len, advice);
        debug_assert!(told.is_ok(), "blocks of the heap are the region's: {told:?}");
    }
}

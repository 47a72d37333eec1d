//! Which blocks of a region hold pages that an arena uses: the others need not be kept.

use std::sync::{Arc, Mutex};

use terrace_region::{Advice, Part, Region};
use terrace_sys::size::{PAGE_BYTES, to_u64};

use crate::lock;

/// Pages in use by blocks, of those blocks that lie in a heap's part of a region as a whole.
/// Nothing here allocates after it was made: hooks call it.
#[derive(Debug)]
pub(crate) struct UsedBlocks {
    part: Part,
    block_pages: usize,
    /// Pages of the region before the heap's first.
    before: usize,
    /// The number of the first block, and the pages in use of each.
    first: usize,
    used: Mutex<Box<[u32]>>,
}

impl UsedBlocks {
    /// Of a heap over a part of a region, in whole pages.
    pub(crate) fn new(part: Part) -> Self {
        let (before, pages) = (part.offset() / PAGE_BYTES, part.len() / PAGE_BYTES);
        let block_pages = part.region().block_bytes() / PAGE_BYTES;
        let first = before.div_ceil(block_pages);
        let count = ((before + pages) / block_pages).saturating_sub(first);
        let used = Mutex::new(vec![0; count].into_boxed_slice());
        let blocks = Self { part, block_pages, before, first, used };
        // Whatever was said of them before, those at its ends included.
        blocks.tell_pages(before, pages, Advice::Used);
        blocks
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        self.part.region()
    }

    /// The heap has ended: what is left of it leaves memory, and who has the region may use it.
    pub(crate) fn end(&self) {
        let pages = lock(&self.used).len() * self.block_pages;
        let start = self.first * self.block_pages;
        let (offset, len) = (to_u64(start * PAGE_BYTES), to_u64(pages * PAGE_BYTES));
        let region = self.region();
        if let Err(error) = region.evict(offset, len) {
            tracing::warn!(region = region.name(), %error, "an ended heap stays in memory");
        }
        self.tell_pages(start, pages, Advice::Used);
    }

    /// Tells the region of pages, counted from its first one.
    fn tell_pages(&self, start: usize, pages: usize, advice: Advice) {
        let offset = (start - self.before) * PAGE_BYTES;
        let told = self.part.advise(offset, pages * PAGE_BYTES, advice);
        debug_assert!(told.is_ok(), "pages of the heap are its part: {told:?}");
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
        if first < end {
            let pages = (end - first) * self.block_pages;
            self.tell_pages(first * self.block_pages, pages, advice);
        }
    }
}

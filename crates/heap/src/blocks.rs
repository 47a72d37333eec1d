//! Use counts of a region's blocks; the contents of unused blocks need not be kept.

use std::sync::{Arc, Mutex};

use terrace_region::{Advice, Part, Region};
use terrace_sys::size::{PAGE_BYTES, to_u64};
use terrace_sys::sync::lock;

/// Number of pages in use per block, for the blocks that lie entirely within a heap's part of a
/// region. Nothing here allocates after construction, because the extent hooks call it.
#[derive(Debug)]
pub(crate) struct UsedBlocks {
    part: Part,
    block_pages: usize,
    /// Pages of the region before the heap's first.
    before: usize,
    /// Number in the region of the first block that is counted, and the pages in use of each block.
    first: usize,
    used: Mutex<Box<[u32]>>,
}

impl UsedBlocks {
    /// Creates the counts of a heap over a part of a region, in whole pages.
    pub(crate) fn new(part: Part) -> Self {
        let (before, pages) = (part.offset() / PAGE_BYTES, part.len() / PAGE_BYTES);
        let block_pages = part.region().block_bytes() / PAGE_BYTES;
        let first = before.div_ceil(block_pages);
        let count = ((before + pages) / block_pages).saturating_sub(first);
        let used = Mutex::new(vec![0; count].into_boxed_slice());
        let blocks = Self { part, block_pages, before, first, used };
        // Earlier advice on the pages is void, including the pages of the partial blocks at both
        // ends.
        blocks.tell_pages(before, pages, Advice::Used);
        blocks
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        self.part.region()
    }

    /// Ends the heap's use of its part: evicts its blocks, and lets the region's owner use them
    /// again.
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

    /// Passes advice on pages to the region. `start` counts from the region's first page.
    fn tell_pages(&self, start: usize, pages: usize, advice: Advice) {
        let offset = (start - self.before) * PAGE_BYTES;
        let told = self.part.advise(offset, pages * PAGE_BYTES, advice);
        debug_assert!(told.is_ok(), "pages of the heap are its part: {told:?}");
    }

    /// Marks pages as used; called before any write to them.
    pub(crate) fn take(&self, page: usize, count: usize) {
        self.change(page, count, Advice::Used, |used, pages| {
            let was_unused = *used == 0;
            *used += pages;
            was_unused
        });
    }

    /// Marks pages as unused; called before any other owner can take them.
    pub(crate) fn give(&self, page: usize, count: usize) {
        self.change(page, count, Advice::Unused, |used, pages| {
            debug_assert!(*used >= pages, "pages given that were not taken");
            *used = used.saturating_sub(pages);
            *used == 0
        });
    }

    /// Changes the count of each block, and passes the advice for each run of blocks where `change`
    /// returns true.
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

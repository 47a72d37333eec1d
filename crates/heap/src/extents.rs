//! Page allocator of a range: first fit over a bitmap of free pages.
//!
//! All pages from `mark` on are free; below the mark, a set bit stands for a free page. A request
//! is served from the first run of set bits that is long enough, or else from the mark. Nothing
//! here allocates after construction, because the extent hooks call it.

const BITS: usize = u64::BITS as usize;

/// Free and taken pages of a range, by page number.
#[derive(Debug)]
pub(crate) struct Extents {
    /// One bit per page: set if the page lies below the mark and was given back.
    free: Box<[u64]>,
    free_count: usize,
    /// No page with a lower number is free.
    low: usize,
    /// Pages from here on are free.
    mark: usize,
    pages: usize,
    /// No run of this many pages or more is free below the mark.
    none_of: usize,
}

impl Extents {
    pub(crate) fn new(pages: usize) -> Self {
        let free = vec![0; pages.div_ceil(BITS)].into_boxed_slice();
        Self { free, free_count: 0, low: 0, mark: 0, pages, none_of: usize::MAX }
    }

    /// Returns the number of pages from the mark to the end of the range. Free pages right below
    /// the mark are not counted.
    pub(crate) fn room(&self) -> usize {
        self.pages - self.mark
    }

    /// Returns the number of pages that are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.mark - self.free_count
    }

    /// Takes `count` pages, the first of them `phase` pages beyond a multiple of `align` pages;
    /// returns the number of the first page, or `None` if no free run is long enough.
    pub(crate) fn take(&mut self, count: usize, align: usize, phase: usize) -> Option<usize> {
        if let Some(page) = self.take_free(count, align, phase) {
            return Some(page);
        }
        // The run of free pages that ends at the mark continues beyond it.
        let page = next(self.free_tail(), align, phase);
        let end = page.checked_add(count).filter(|end| *end <= self.pages)?;
        let mark = std::mem::replace(&mut self.mark, end);
        if page < mark {
            self.set(page, mark - page, false);
            self.free_count -= mark - page;
        } else if mark < page {
            self.give(mark, page - mark);
        }
        Some(page)
    }

    /// Returns the first page of the free run that ends at the mark, or the mark.
    fn free_tail(&self) -> usize {
        let mut page = self.mark;
        while page > 0 {
            let (word, bit) = ((page - 1) / BITS, (page - 1) % BITS);
            // Shift the bits up to `bit` to the upper end of the word.
            let free = (self.free[word] << (BITS - 1 - bit)).leading_ones() as usize;
            page -= free.min(bit + 1);
            if free <= bit {
                break;
            }
        }
        page
    }

    /// Gives pages back to the range.
    pub(crate) fn give(&mut self, page: usize, count: usize) {
        debug_assert!(page + count <= self.mark, "pages that were never taken");
        self.none_of = usize::MAX;
        if page + count == self.mark {
            self.mark = page;
            return;
        }
        self.set(page, count, true);
        self.free_count += count;
        self.low = self.low.min(page);
    }

    fn take_free(&mut self, count: usize, align: usize, phase: usize) -> Option<usize> {
        if count > self.free_count || count >= self.none_of {
            return None;
        }
        let mut run = self.next_run(self.low);
        if let Some((start, _)) = run {
            self.low = start;
        }
        while let Some((start, end)) = run {
            let page = next(start, align, phase);
            if page + count <= end {
                self.set(page, count, false);
                self.free_count -= count;
                return Some(page);
            }
            run = self.next_run(end);
        }
        if align == 1 {
            self.none_of = count;
        }
        None
    }

    /// Returns the first run of free pages at or after `from`, as its start and its end.
    fn next_run(&self, from: usize) -> Option<(usize, usize)> {
        let start = self.find(from, true)?;
        Some((start, self.find(start, false).unwrap_or(self.mark)))
    }

    /// Returns the first page at or after `from`, below the mark, whose bit is `set`.
    fn find(&self, from: usize, set: bool) -> Option<usize> {
        let mut page = from;
        while page < self.mark {
            let word = self.free[page / BITS];
            let rest = if set { word } else { !word } >> (page % BITS);
            if rest != 0 {
                let found = page + rest.trailing_zeros() as usize;
                return (found < self.mark).then_some(found);
            }
            page = (page / BITS + 1) * BITS;
        }
        None
    }

    fn set(&mut self, page: usize, count: usize, free: bool) {
        let (mut at, end) = (page, page + count);
        while at < end {
            let (first, last) = (at % BITS, (at % BITS + end - at).min(BITS));
            let mask = (u64::MAX >> (BITS - (last - first))) << first;
            let word = &mut self.free[at / BITS];
            debug_assert_eq!(*word & mask, if free { 0 } else { mask }, "taken or given twice");
            *word = if free { *word | mask } else { *word & !mask };
            at += last - first;
        }
    }
}

/// Returns the first number from `from` on that is `phase` more than a multiple of `align`.
fn next(from: usize, align: usize, phase: usize) -> usize {
    (from + align - phase % align).next_multiple_of(align) + phase % align - align
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn alignment_counts_from_the_phase() {
        assert_eq!(next(0, 512, 0), 0);
        assert_eq!(next(1, 512, 0), 512);
        assert_eq!(next(0, 512, 12), 12);
        assert_eq!(next(13, 512, 12), 524);
        assert_eq!(next(7, 1, 0), 7);
    }

    #[test]
    fn what_is_given_back_is_taken_first() {
        let mut extents = Extents::new(1000);
        let first = extents.take(10, 1, 0).expect("room");
        assert_eq!(first, 0);
        let second = extents.take(100, 64, 0).expect("room");
        assert_eq!(second, 64);
        assert_eq!(extents.take(54, 1, 0), Some(10));
        extents.give(0, 10);
        assert_eq!(extents.take(11, 1, 0), Some(164));
        assert_eq!(extents.take(10, 1, 0), Some(0));
        assert_eq!(extents.take(1000, 1, 0), None);
        assert_eq!(extents.taken(), 175);
    }

    proptest! {
        /// In any sequence of takes and gives, no page is taken twice, and a request that fits
        /// succeeds.
        #[test]
        fn pages_are_taken_once(
            steps in prop::collection::vec((1_usize..70, 0_u32..5, 0_usize..8), 1..300)
        ) {
            const PAGES: usize = 700;
            let mut extents = Extents::new(PAGES);
            let mut held: Vec<(usize, usize)> = Vec::new();
            let mut model = [false; PAGES];
            for (count, align, what) in steps {
                if what < 3 && !held.is_empty() {
                    let (page, count) = held.swap_remove(count % held.len());
                    extents.give(page, count);
                    model[page..page + count].fill(false);
                    continue;
                }
                let align = 1 << align;
                let fits = (0..=PAGES - count).filter(|page| page % align == 3 % align);
                let fits = fits.filter(|page| !model[*page..page + count].contains(&true)).count();
                match extents.take(count, align, 3) {
                    Some(page) => {
                        prop_assert_eq!(page % align, 3 % align);
                        prop_assert!(!model[page..page + count].contains(&true));
                        model[page..page + count].fill(true);
                        held.push((page, count));
                    }
                    None => prop_assert_eq!(fits, 0),
                }
                prop_assert_eq!(extents.taken(), model.iter().filter(|taken| **taken).count());
            }
        }
    }
}

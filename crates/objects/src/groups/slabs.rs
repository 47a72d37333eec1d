//! Allocator of object memory: runs of 64-byte granules in slabs of 2 MiB.
//!
//! A run has no header and no boundary tags: a bitmap outside of the slabs, 4 KiB per slab, marks
//! the used granules, and the owner of a run keeps its length. Adjacent free runs coalesce without
//! any work. A slab is charged to the budget when its first run is allocated, and its memory is
//! returned when its last run is freed.
//!
//! ```text
//! Empty -> Open       a thread takes it to allocate from
//! Open -> Idle        it has no free run of the requested length
//! Idle -> Open        enough of it was freed
//! Idle -> Draining    defragmentation moves the remaining runs out of it
//! Draining -> Idle    some run could not be moved
//! Idle, Draining -> Empty    none of its granules is used
//! Empty -> Large -> Empty    with its neighbours, it holds one run longer than a slab
//! ```
//!
//! Each slab keeps an upper bound of the length of its longest free run, so that allocations skip
//! slabs that cannot serve them.
//!
//! Locking order: the lock of an open slab's place, then the shelf's. No other lock is taken under
//! them.

mod check;
pub(crate) mod drain;
mod slab;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use terrace_sys::map::Mapping;
use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;

use crate::account::Account;
use crate::error::ObjectError;
use crate::groups::bitmap::Bitmap;
use crate::groups::memory::Memory;
use crate::groups::run::{GRANULE_BYTES, NoRoom, Run, SLAB_BYTES, SLAB_GRANULES};
use slab::{Slab, State};

const SLAB_WORDS: usize = SLAB_GRANULES / 64;

/// Orders the claim of a run before the writes to it. The claim has acquired what the thread did
/// that freed the run; so an optimistic reader that sees any of the writes sees that the latch of
/// the group which had the run before was held. The fence that the writer made when it latched its
/// own group does not do: it came before the claim.
fn before_writing() {
    fence(Ordering::Release);
}

/// Slabs from which a run may be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Any slab; a new one is charged to the budget if no slab in use has such a run.
    All,
    /// Only the slabs in use.
    Held,
}

/// The slab that a group of threads allocates from, and the granule where its next search begins.
#[derive(Debug, Default)]
#[repr(align(128))]
struct SlabCursor {
    slab: Option<usize>,
    cursor: usize,
}

/// Extent of the slabs in use.
#[derive(Debug, Default)]
struct Shelf {
    /// First slab that was never used.
    next: usize,
    /// Number of empty slabs below `next`.
    empty: usize,
}

/// Base address of the slabs, shared by all threads.
struct Start(*mut u8);

// SAFETY: the address is that of memory that `Slabs` owns; each user of it answers for races.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

/// The slab allocator of a store.
pub(crate) struct Slabs {
    /// Base address of `memory`.
    start: Start,
    memory: Memory,
    /// Array of [`Slab`], then the words of the bitmaps.
    about: Mapping,
    count: usize,
    places: Vec<Mutex<SlabCursor>>,
    shelf: Mutex<Shelf>,
    account: Arc<Account>,
    used: AtomicU64,
    /// Granules freed since the store was made.
    given: AtomicU64,
}

impl Slabs {
    /// Makes the slabs over all of `memory`, with `places` groups of threads to allocate from them.
    pub(crate) fn new(
        memory: Memory,
        places: usize,
        account: Arc<Account>,
    ) -> Result<Self, ObjectError> {
        let count = memory.len() / SLAB_BYTES;
        let about =
            Mapping::reserve(count * (size_of::<Slab>() + SLAB_WORDS * 8)).map_err(|source| {
                ObjectError::Memory { what: "the map of slabs".to_owned(), source }
            })?;
        let places = (0..places).map(|_| Mutex::default()).collect();
        Ok(Self {
            start: Start(memory.start()),
            memory,
            about,
            count,
            places,
            shelf: Mutex::default(),
            account,
            used: AtomicU64::new(0),
            given: AtomicU64::new(0),
        })
    }

    /// Bytes held by slabs in use.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * to_u64(SLAB_BYTES)
    }

    /// Bytes of all used granules.
    pub(crate) fn used_bytes(&self) -> u64 {
        let in_use = (0..self.high()).filter(|n| !self.slab(*n).is(State::Empty));
        let granules: usize = in_use.map(|n| SLAB_GRANULES - self.slab(n).free()).sum();
        to_u64(granules * GRANULE_BYTES)
    }

    /// Number of granules freed since the store was made.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// Number of granules in all slabs, used or not.
    pub(crate) fn granules(&self) -> u64 {
        to_u64(self.count * SLAB_GRANULES)
    }

    /// Returns the address of a granule.
    #[inline]
    pub(crate) fn address(&self, granule: u64) -> *mut u8 {
        debug_assert!(granule < self.granules());
        // Wrapping, as the number may have been read during a concurrent change; a caller that
        // reads through the pointer checks the number first.
        let offset = granule.wrapping_mul(to_u64(GRANULE_BYTES));
        self.start.0.wrapping_add(to_usize(offset))
    }

    fn slab(&self, n: usize) -> &Slab {
        assert!(n < self.count, "slab {n} of {}", self.count);
        // SAFETY: `about` begins with `count` slabs, zero at first, which are atomics alone; it
        // lives as long as `self` and is aligned to pages.
        unsafe { &*self.about.as_ptr().cast::<Slab>().add(n) }
    }

    fn bitmap(&self, n: usize) -> Bitmap<'_> {
        assert!(n < self.count, "slab {n} of {}", self.count);
        // SAFETY: the words follow the `count` slabs, whose size is a multiple of a word's; they
        // are `count` times `SLAB_WORDS` atomics, zero at first.
        let words = unsafe {
            let first = self.about.as_ptr().cast::<Slab>().add(self.count).cast::<AtomicU64>();
            std::slice::from_raw_parts(first.add(n * SLAB_WORDS), SLAB_WORDS)
        };
        Bitmap(words)
    }

    fn high(&self) -> usize {
        lock(&self.shelf).next
    }

    /// Allocates a run for a thread of group `place`.
    pub(crate) fn take(&self, place: usize, len: u64) -> Result<Run, NoRoom> {
        self.take_from(Supply::All, place, len)
    }

    /// As [`Slabs::take`], from new slabs too or only from those in use.
    pub(crate) fn take_from(&self, from: Supply, place: usize, len: u64) -> Result<Run, NoRoom> {
        let run = self.claim(from, place, len)?;
        before_writing();
        Ok(run)
    }

    fn claim(&self, from: Supply, place: usize, len: u64) -> Result<Run, NoRoom> {
        let Ok(wanted) = usize::try_from(len) else { return Err(NoRoom(len)) };
        if wanted > SLAB_GRANULES {
            if from == Supply::Held {
                return Err(NoRoom(len));
            }
            let taken = self.take_large(wanted);
            let taken = taken.or_else(|| {
                self.close_all();
                self.take_large(wanted)
            });
            return taken.ok_or(NoRoom(len));
        }
        let mut place = lock(&self.places[place % self.places.len()]);
        if let Some(slab) = place.slab {
            let found = self.take_in(slab, place.cursor, wanted);
            if let Some(start) = found.or_else(|| self.take_in(slab, 0, wanted)) {
                place.cursor = start + wanted;
                return Ok(run(slab, start, wanted));
            }
        }
        let (slab, start) = self.open(from, &mut place, wanted).ok_or(NoRoom(len))?;
        Ok(run(slab, start, wanted))
    }

    fn take_in(&self, n: usize, from: usize, len: usize) -> Option<usize> {
        self.take_between(n, from..SLAB_GRANULES, len)
    }

    fn take_between(&self, n: usize, range: Range<usize>, len: usize) -> Option<usize> {
        let (slab, bitmap) = (self.slab(n), self.bitmap(n));
        // The count is lowered first: a slab whose count is whole has no thread about to claim.
        let before = slab.before_search();
        if slab.count_used(len) {
            let mut from = range.start;
            while let Some(start) = bitmap.find(from, range.end, len) {
                if bitmap.claim(start, len) {
                    return Some(start);
                }
                // Another thread may have missed a run because of what was claimed for a moment.
                slab.has_run(bitmap.around(start, 0));
                from = start + 1;
            }
            if range == (0..SLAB_GRANULES) {
                slab.has_no_run(before, len);
            }
        }
        slab.count_free(len);
        None
    }

    /// Chooses another slab for a place and allocates a run in it.
    fn open(&self, from: Supply, place: &mut SlabCursor, len: usize) -> Option<(usize, usize)> {
        let mut shelf = lock(&self.shelf);
        if let Some(old) = place.slab.take() {
            self.close(&mut shelf, old);
        }
        let promising = (0..shelf.next).filter(|n| self.slab(*n).promises(len));
        let mut found = promising.into_iter().find_map(|n| Some((n, self.take_in(n, 0, len)?)));
        if found.is_none() && from == Supply::All {
            found = self.fresh(&mut shelf).and_then(|n| Some((n, self.take_in(n, 0, len)?)));
        }
        if let Some((n, start)) = found {
            self.slab(n).set(State::Open);
            *place = SlabCursor { slab: Some(n), cursor: start + len };
            return found;
        }
        // No slab is left to open: takes a run from any slab that has one, shared with its threads.
        for n in 0..shelf.next {
            let slab = self.slab(n);
            if (slab.is(State::Idle) || slab.is(State::Open)) && slab.may_have(len) {
                if let Some(start) = self.take_in(n, 0, len) {
                    return Some((n, start));
                }
                // A thread that freed its last run meanwhile may have seen the slab counted as
                // used.
                self.empty_if_unused(&mut shelf, n);
            }
        }
        None
    }

    fn close(&self, shelf: &mut Shelf, n: usize) {
        self.slab(n).set(State::Idle);
        self.empty_if_unused(shelf, n);
    }

    /// Closes the slabs of all places, so that unused ones return to the budget.
    pub(crate) fn close_all(&self) {
        for place in &self.places {
            let mut place = lock(place);
            if let Some(old) = place.slab.take() {
                self.close(&mut lock(&self.shelf), old);
            }
        }
    }

    /// Takes an empty slab and charges it to the budget.
    fn fresh(&self, shelf: &mut Shelf) -> Option<usize> {
        let n = if shelf.empty > 0 {
            (0..shelf.next).find(|n| self.slab(*n).is(State::Empty))?
        } else {
            Some(shelf.next).filter(|n| *n < self.count)?
        };
        self.pay(1)?;
        if n == shelf.next {
            shelf.next += 1;
        } else {
            shelf.empty -= 1;
        }
        self.furnish(n, State::Idle, SLAB_GRANULES);
        Some(n)
    }

    fn pay(&self, slabs: u64) -> Option<()> {
        self.account.pay_slabs(slabs * to_u64(SLAB_BYTES)).ok()?;
        self.used.fetch_add(slabs, Ordering::Relaxed);
        Some(())
    }

    fn furnish(&self, n: usize, state: State, free: usize) {
        self.memory.take(n * SLAB_BYTES, SLAB_BYTES);
        self.slab(n).furnish(state, free);
    }

    /// Returns a slab's memory if none of it is used and no thread allocates from it.
    fn empty_if_unused(&self, shelf: &mut Shelf, n: usize) {
        let slab = self.slab(n);
        let idle = slab.is(State::Idle) || slab.is(State::Draining);
        if idle && slab.free() == SLAB_GRANULES {
            self.empty(shelf, n..n + 1);
        }
    }

    fn empty(&self, shelf: &mut Shelf, slabs: Range<usize>) {
        let count = slabs.len();
        self.memory.give_up(slabs.start * SLAB_BYTES, count * SLAB_BYTES);
        slabs.for_each(|n| self.slab(n).set(State::Empty));
        shelf.empty += count;
        self.used.fetch_sub(to_u64(count), Ordering::Relaxed);
        self.account.give_slabs_back(to_u64(count * SLAB_BYTES));
    }

    fn take_large(&self, len: usize) -> Option<Run> {
        let slabs = len.div_ceil(SLAB_GRANULES);
        let mut shelf = lock(&self.shelf);
        let first = self.neighbours(&shelf, slabs)?;
        self.pay(to_u64(slabs))?;
        for n in first..first + slabs {
            if n < shelf.next {
                shelf.empty -= 1;
            }
            self.furnish(n, State::Large, 0);
        }
        shelf.next = shelf.next.max(first + slabs);
        Some(run(first, 0, len))
    }

    /// Returns the first of `slabs` consecutive empty slabs.
    fn neighbours(&self, shelf: &Shelf, slabs: usize) -> Option<usize> {
        let mut first = 0;
        for n in 0..shelf.next {
            if !self.slab(n).is(State::Empty) {
                first = n + 1;
            } else if n + 1 - first == slabs {
                return Some(first);
            }
        }
        (self.count - first >= slabs).then_some(first)
    }

    /// Extends a run in place to `len` granules. Returns false if the granules after it are in use.
    pub(crate) fn extend(&self, run: Run, len: u64) -> bool {
        let (Ok(start), Ok(old), Ok(new)) =
            (usize::try_from(run.start), usize::try_from(run.len), usize::try_from(len))
        else {
            return false;
        };
        let (n, start) = (start / SLAB_GRANULES, start % SLAB_GRANULES);
        let slab = self.slab(n);
        if start + new > SLAB_GRANULES || slab.is(State::Large) || slab.is(State::Draining) {
            return false;
        }
        let counted = slab.count_used(new - old);
        let bitmap = self.bitmap(n);
        if counted && bitmap.claim(start + old, new - old) {
            before_writing();
            return true;
        }
        slab.has_run(bitmap.around(start + old, 0));
        if slab.count_free(new - old) && !slab.is(State::Open) {
            self.empty_if_unused(&mut lock(&self.shelf), n);
        }
        false
    }

    /// Frees a run, or the end of one that is no longer than a slab.
    pub(crate) fn give(&self, run: Run) {
        let start = to_usize(run.start);
        let len = to_usize(run.len);
        let (n, start) = (start / SLAB_GRANULES, start % SLAB_GRANULES);
        let slab = self.slab(n);
        if slab.is(State::Large) {
            self.given.fetch_add(run.len, Ordering::Relaxed);
            return self.empty(&mut lock(&self.shelf), n..n + len.div_ceil(SLAB_GRANULES));
        }
        let bitmap = self.bitmap(n);
        bitmap.release(start, len);
        // Of two threads that free adjacent runs, at least one sees both as free.
        fence(Ordering::SeqCst);
        slab.has_run(bitmap.around(start, len));
        self.given.fetch_add(run.len, Ordering::Relaxed);
        if slab.count_free(len) && !slab.is(State::Open) {
            self.empty_if_unused(&mut lock(&self.shelf), n);
        }
    }
}

impl Drop for Slabs {
    /// Discards the contents of a region's slabs: they leave memory without being written back.
    fn drop(&mut self) {
        self.memory.end(self.high() * SLAB_BYTES);
    }
}

fn run(slab: usize, start: usize, len: usize) -> Run {
    Run { start: to_u64(slab * SLAB_GRANULES + start), len: to_u64(len) }
}

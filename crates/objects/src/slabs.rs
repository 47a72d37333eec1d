//! Allocator of object memory: runs of 64-byte granules in slabs of 2 MiB.
//!
//! A run has no header and no boundary tags: a bitmap beside the data, 4 KiB per slab, marks the
//! used granules, and the owner of a run keeps its length. Adjacent free runs coalesce without any
//! work. A slab is charged to the budget when its first run is allocated, and its memory is
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

use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use terrace_sys::map::Mapping;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use crate::account::Account;
use crate::bitmap::Bitmap;
use crate::error::ObjectError;
use crate::memory::Memory;

/// Unit of allocation in bytes. Short under loom, which explores every byte.
pub(crate) const GRANULE_BYTES: usize = if cfg!(loom) { 4 } else { 64 };
/// Unit in which memory is charged to the budget, in bytes.
pub(crate) const SLAB_BYTES: usize = if cfg!(any(miri, loom)) { 128 << 10 } else { 2 << 20 };
/// Granules of a slab.
pub(crate) const SLAB_GRANULES: usize = SLAB_BYTES / GRANULE_BYTES;
const SLAB_WORDS: usize = SLAB_GRANULES / 64;
/// Free granules from which on a slab is allocated from or drained again: a sixteenth of it.
const WORTH_GRANULES: usize = SLAB_GRANULES / 16;

/// Consecutive granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First granule.
    pub start: u64,
    /// Number of granules.
    pub len: u64,
}

impl Run {
    /// Number of granules that hold `bytes`.
    pub(crate) fn granules(bytes: usize) -> u64 {
        to_u64(bytes.div_ceil(GRANULE_BYTES))
    }
}

/// Reason to drain slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Memory is returned to the budget where that is cheap.
    Tidiness,
    /// An allocation of so many granules failed: holes are joined even at the price of many moves.
    Room(u64),
}

/// Most slabs drained at once for a caller that waits for a run of at most a slab: some
/// milliseconds of work.
const HURRIED_SLABS: usize = 8;

/// Slabs that a run may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Any slab; a new one is charged to the budget if no slab in use has such a run.
    All,
    /// Only the slabs in use.
    Held,
}

/// No free run of so many granules exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum State {
    Empty = 0,
    Open = 1,
    Idle = 2,
    Draining = 3,
    Large = 4,
}

/// State of a slab beside its bitmap. Zero bytes are an empty slab.
struct Slab {
    state: AtomicU32,
    /// Granules that are neither claimed nor about to be claimed; meaningless while the slab is
    /// empty.
    free: AtomicI32,
    /// Upper half: number of runs freed so far. Lower half: upper bound of the length of the
    /// longest free run, in granules.
    longest: AtomicU64,
}

impl Slab {
    fn is(&self, state: State) -> bool {
        self.state.load(Ordering::SeqCst) == state as u32
    }

    fn set(&self, state: State) {
        self.state.store(state as u32, Ordering::SeqCst);
    }

    fn free(&self) -> usize {
        usize::try_from(self.free.load(Ordering::SeqCst)).unwrap_or(0)
    }

    /// True if a run of `len` granules may be free in this slab.
    fn may_have(&self, len: usize) -> bool {
        let longest = self.longest.load(Ordering::SeqCst) & LENGTH;
        self.free() >= len && longest >= to_u64(len)
    }

    /// True if this slab is idle and worth allocating `len` granules from.
    fn promises(&self, len: usize) -> bool {
        self.is(State::Idle) && self.free() >= WORTH_GRANULES && self.may_have(len)
    }

    /// Notes that a run was freed and forms, with its free neighbours, a free run of `len`
    /// granules.
    fn has_run(&self, len: usize) {
        let more = |word: u64| {
            Some((word & !LENGTH).wrapping_add(GIVEN) | (word & LENGTH).max(to_u64(len)))
        };
        let _ = self.longest.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
    }

    /// Notes that a search of the whole slab found no run of `len` granules. `before` is the word
    /// as it was before the search: if a run was freed since, it may be such a run, and nothing is
    /// noted.
    fn has_no_run(&self, before: u64, len: usize) {
        let longest = (before & LENGTH).min(to_u64(len) - 1);
        let now = before & !LENGTH | longest;
        let _ = self.longest.compare_exchange(before, now, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// The part of the word that is a length, and the lowest bit of the count.
const LENGTH: u64 = u32::MAX as u64;
const GIVEN: u64 = 1 << 32;

/// The slab that a group of threads allocates from, and the granule where its next search begins.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
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
    places: Vec<Mutex<Place>>,
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
        self.start.0.wrapping_add(terrace_sys::size::to_usize(offset))
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
        let count = i32::try_from(len).unwrap_or(i32::MAX);
        let before = slab.longest.load(Ordering::SeqCst);
        if slab.free.fetch_sub(count, Ordering::SeqCst) >= count {
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
        slab.free.fetch_add(count, Ordering::SeqCst);
        None
    }

    /// Chooses another slab for a place and allocates a run in it.
    fn open(&self, from: Supply, place: &mut Place, len: usize) -> Option<(usize, usize)> {
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
            *place = Place { slab: Some(n), cursor: start + len };
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
        let slab = self.slab(n);
        slab.longest.store(to_u64(free), Ordering::SeqCst);
        slab.free.store(i32::try_from(free).unwrap_or(i32::MAX), Ordering::SeqCst);
        slab.set(state);
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

    /// Extends a run in place, if the granules after it are free.
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
        let count = i32::try_from(new - old).unwrap_or(i32::MAX);
        let counted = slab.free.fetch_sub(count, Ordering::SeqCst) >= count;
        let bitmap = self.bitmap(n);
        if counted && bitmap.claim(start + old, new - old) {
            return true;
        }
        slab.has_run(bitmap.around(start + old, 0));
        let free = slab.free.fetch_add(count, Ordering::SeqCst) + count;
        if usize::try_from(free) == Ok(SLAB_GRANULES) && !slab.is(State::Open) {
            self.empty_if_unused(&mut lock(&self.shelf), n);
        }
        false
    }

    /// Frees a run, or the end of one that is no longer than a slab.
    pub(crate) fn give(&self, run: Run) {
        let start = terrace_sys::size::to_usize(run.start);
        let len = terrace_sys::size::to_usize(run.len);
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
        let count = i32::try_from(len).unwrap_or(i32::MAX);
        self.given.fetch_add(run.len, Ordering::Relaxed);
        let free = slab.free.fetch_add(count, Ordering::SeqCst) + count;
        if usize::try_from(free) == Ok(SLAB_GRANULES) && !slab.is(State::Open) {
            self.empty_if_unused(&mut lock(&self.shelf), n);
        }
    }

    /// Chooses slabs to evacuate: the emptiest, as long as the others have room for their contents.
    /// No run is allocated from them until [`Slabs::end_draining`].
    pub(crate) fn drain(&self, need: Need) -> Vec<usize> {
        let (worth, parts) = match need {
            Need::Tidiness => (WORTH_GRANULES, 4),
            Need::Room(_) => (WORTH_GRANULES / 8, 16),
        };
        let most = match need {
            Need::Room(len) if len <= to_u64(SLAB_GRANULES) => HURRIED_SLABS,
            _ => usize::MAX,
        };
        let shelf = lock(&self.shelf);
        let idle = (0..shelf.next).filter(|n| self.slab(*n).is(State::Idle));
        let mut idle: Vec<(usize, usize)> = idle.map(|n| (self.slab(n).free(), n)).collect();
        idle.sort_unstable();
        let open = (0..shelf.next).filter(|n| self.slab(*n).is(State::Open));
        let mut room: usize = idle.iter().map(|(free, _)| free).sum();
        room += open.map(|n| self.slab(n).free()).sum::<usize>();
        let mut drained = Vec::new();
        while let Some((free, n)) = idle.pop() {
            let used = SLAB_GRANULES - free;
            // Holes are never filled to the last granule, so part of the room is not counted.
            let left = room.checked_sub(free + used + used / parts);
            // A single slab can be compacted in any case, by moving runs to lower granules of the
            // same slab.
            let lone = need != Need::Tidiness && drained.is_empty();
            if free < worth || (left.is_none() && !lone) || drained.len() == most {
                break;
            }
            room = left.unwrap_or(0);
            self.slab(n).set(State::Draining);
            drained.push(n);
        }
        drained
    }

    /// Allocates a run as long as `other` below it in the same slab, which is being drained.
    pub(crate) fn take_lower(&self, other: Run) -> Option<Run> {
        let (start, len) =
            (terrace_sys::size::to_usize(other.start), terrace_sys::size::to_usize(other.len));
        let (n, end) = (start / SLAB_GRANULES, start % SLAB_GRANULES);
        self.take_between(n, 0..end, len).map(|start| run(n, start, len))
    }

    /// True if the slab of a granule is being drained.
    pub(crate) fn is_draining(&self, granule: u64) -> bool {
        let n = terrace_sys::size::to_usize(granule) / SLAB_GRANULES;
        self.slab(n).is(State::Draining)
    }

    /// Ends the draining of slabs chosen by [`Slabs::drain`].
    pub(crate) fn end_draining(&self, drained: &[usize]) {
        let mut shelf = lock(&self.shelf);
        for n in drained.iter().filter(|n| self.slab(**n).is(State::Draining)) {
            self.slab(*n).set(State::Idle);
            self.empty_if_unused(&mut shelf, *n);
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

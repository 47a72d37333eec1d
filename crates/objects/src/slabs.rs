//! Where the bytes of objects come from: runs of 64-byte granules in slabs of 2 MiB.
//!
//! A run has no header and no neighbour that knows it: what is used stands in a bitmap beside the
//! data, 4 KiB for a slab, and whoever has a run knows how long it is. Free runs join by
//! themselves. A slab is taken from the budget when the first run of it is, and its memory goes
//! back when the last one does.
//!
//! ```text
//! Empty -> Open       a thread takes it to allocate from
//! Open -> Idle        it has no run of the length asked for
//! Idle -> Open        enough of it was given back
//! Idle -> Draining    defragmentation moves what is left of it
//! Draining -> Idle    something could not be moved
//! Idle, Draining -> Empty    nothing of it is used
//! Empty -> Large -> Empty    with its neighbours, it holds a run of more than a slab
//! ```
//!
//! Of each slab it is known how long its longest free run is at most, so that nobody looks where
//! nothing is.
//!
//! Locking order: an open slab's lock, then the shelf's. Nothing else is locked under them.

mod check;

use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use terrace_sys::map::Mapping;
use terrace_sys::size::to_u64;

use crate::account::Account;
use crate::bitmap::Bitmap;
use crate::error::ObjectError;
use crate::memory::Memory;

/// The unit of allocation in bytes. Short under loom, which explores every byte.
pub(crate) const GRANULE_BYTES: usize = if cfg!(loom) { 4 } else { 64 };
/// The unit in which memory is taken from the budget, in bytes.
pub(crate) const SLAB_BYTES: usize = if cfg!(any(miri, loom)) { 128 << 10 } else { 2 << 20 };
/// Granules of a slab.
pub(crate) const SLAB_GRANULES: usize = SLAB_BYTES / GRANULE_BYTES;
const SLAB_WORDS: usize = SLAB_GRANULES / 64;
/// A slab is looked at again when so much of it is free: a sixteenth.
const WORTH_GRANULES: usize = SLAB_GRANULES / 16;

/// Consecutive granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first granule.
    pub start: u64,
    /// How many.
    pub len: u64,
}

impl Run {
    /// The granules that hold `bytes`.
    pub(crate) fn granules(bytes: usize) -> u64 {
        to_u64(bytes.div_ceil(GRANULE_BYTES))
    }
}

/// Why slabs are drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Memory goes back where that is cheap.
    Tidiness,
    /// Somebody found no run of so many granules: holes are joined even where much is moved for it.
    Room(u64),
}

/// Slabs that are drained for somebody who waits for a run of a slab or less: some milliseconds.
const HURRIED_SLABS: usize = 8;

/// Where a run may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Any slab; one more is paid for where those in use have no such run.
    All,
    /// The slabs that are in use.
    Held,
}

/// There is no run of so many granules.
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

/// What is known of a slab beside its bitmap. Zero bytes are an empty slab.
struct Slab {
    state: AtomicU32,
    /// Granules that nobody claimed or is about to claim; meaningless while the slab is empty.
    free: AtomicI32,
    /// How many runs were given back, in the upper half, and in the lower one no less than the
    /// granules of its longest free run.
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

    /// Whether a run of `len` may be free in it.
    fn may_have(&self, len: usize) -> bool {
        let longest = self.longest.load(Ordering::SeqCst) & LENGTH;
        self.free() >= len && longest >= to_u64(len)
    }

    /// Whether it is worth allocating from.
    fn promises(&self, len: usize) -> bool {
        self.is(State::Idle) && self.free() >= WORTH_GRANULES && self.may_have(len)
    }

    /// A run was given back, and so many granules are free there with what is beside it.
    fn has_run(&self, len: usize) {
        let more = |word: u64| {
            Some((word & !LENGTH).wrapping_add(GIVEN) | (word & LENGTH).max(to_u64(len)))
        };
        let _ = self.longest.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
    }

    /// All of it was searched for a run of `len` in vain; `before`: the word as it was then. If
    /// something was given back since, that may be such a run.
    fn has_no_run(&self, before: u64, len: usize) {
        let longest = (before & LENGTH).min(to_u64(len) - 1);
        let now = before & !LENGTH | longest;
        let _ = self.longest.compare_exchange(before, now, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// What of the word is a length, and the first bit of the count.
const LENGTH: u64 = u32::MAX as u64;
const GIVEN: u64 = 1 << 32;

/// The slab that some threads allocate from, and where they look next.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
    slab: Option<usize>,
    cursor: usize,
}

/// Which slabs are in use.
#[derive(Debug, Default)]
struct Shelf {
    /// Slabs from here on were never used.
    next: usize,
    /// Slabs below `next` that are empty.
    empty: usize,
}

/// An address that is the same for all threads.
struct Start(*mut u8);

// SAFETY: the address is that of memory that `Slabs` owns; whoever uses it answers for races.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

/// All slabs of a store.
pub(crate) struct Slabs {
    /// Where `memory` begins.
    start: Start,
    memory: Memory,
    /// An array of [`Slab`], then the words of the bitmaps.
    about: Mapping,
    count: usize,
    places: Vec<Mutex<Place>>,
    shelf: Mutex<Shelf>,
    account: Arc<Account>,
    used: AtomicU64,
    /// Granules that were ever given back.
    given: AtomicU64,
}

impl Slabs {
    /// Slabs over all of `memory`, for so many groups of threads.
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

    /// Bytes that slabs in use hold.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * to_u64(SLAB_BYTES)
    }

    /// Bytes of all granules that are used.
    pub(crate) fn used_bytes(&self) -> u64 {
        let in_use = (0..self.high()).filter(|n| !self.slab(*n).is(State::Empty));
        let granules: usize = in_use.map(|n| SLAB_GRANULES - self.slab(n).free()).sum();
        to_u64(granules * GRANULE_BYTES)
    }

    /// Granules that were given back since the store was made.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// Granules there are, used or not.
    pub(crate) fn granules(&self) -> u64 {
        to_u64(self.count * SLAB_GRANULES)
    }

    /// The address of a granule.
    #[inline]
    pub(crate) fn address(&self, granule: u64) -> *mut u8 {
        debug_assert!(granule < self.granules());
        // Wrapping, as the number may have been read while somebody changed it; whoever reads
        // through the pointer checks the number first.
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

    /// Takes a run for a thread of group `place`.
    pub(crate) fn take(&self, place: usize, len: u64) -> Result<Run, NoRoom> {
        self.take_from(Supply::All, place, len)
    }

    /// As [`Slabs::take`], from slabs that may have to be in use.
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
        // The count goes first: a slab whose count is whole has nobody who is about to claim.
        let count = i32::try_from(len).unwrap_or(i32::MAX);
        let before = slab.longest.load(Ordering::SeqCst);
        if slab.free.fetch_sub(count, Ordering::SeqCst) >= count {
            let mut from = range.start;
            while let Some(start) = bitmap.find(from, range.end, len) {
                if bitmap.claim(start, len) {
                    return Some(start);
                }
                // Somebody else may have found nothing because of what was claimed for a moment.
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

    /// Finds another slab for a place, and a run in it.
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
        // No slab of one's own: whatever has a run left, whoever allocates from it.
        for n in 0..shelf.next {
            let slab = self.slab(n);
            if (slab.is(State::Idle) || slab.is(State::Open)) && slab.may_have(len) {
                if let Some(start) = self.take_in(n, 0, len) {
                    return Some((n, start));
                }
                // Who gave its last run back meanwhile may have seen it counted as used.
                self.empty_if_unused(&mut shelf, n);
            }
        }
        None
    }

    fn close(&self, shelf: &mut Shelf, n: usize) {
        self.slab(n).set(State::Idle);
        self.empty_if_unused(shelf, n);
    }

    /// Nobody allocates from any slab for now: those that are unused go back to the budget.
    pub(crate) fn close_all(&self) {
        for place in &self.places {
            let mut place = lock(place);
            if let Some(old) = place.slab.take() {
                self.close(&mut lock(&self.shelf), old);
            }
        }
    }

    /// A slab that nobody uses, paid for.
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

    /// Gives a slab's memory back if nothing of it is used and nobody allocates from it.
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

    /// The first of so many empty slabs in a row.
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

    /// Makes a run longer where it is, if what follows is free.
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

    /// Gives back a run, or the end of one that is no longer than a slab.
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
        // Of two who give neighbours back, one sees both.
        fence(Ordering::SeqCst);
        slab.has_run(bitmap.around(start, len));
        let count = i32::try_from(len).unwrap_or(i32::MAX);
        self.given.fetch_add(run.len, Ordering::Relaxed);
        let free = slab.free.fetch_add(count, Ordering::SeqCst) + count;
        if usize::try_from(free) == Ok(SLAB_GRANULES) && !slab.is(State::Open) {
            self.empty_if_unused(&mut lock(&self.shelf), n);
        }
    }

    /// Chooses slabs to move everything out of: the emptiest, as long as the others have room for
    /// what is in them. Nothing is allocated from them until [`Slabs::end_draining`].
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
            // Holes are never filled to the last granule: some of the room is left out.
            let left = room.checked_sub(free + used + used / parts);
            // Of one slab the holes can be joined in any case, by moving to lower ones of its own.
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

    /// Takes a run as long as another in front of it in its slab, which is drained.
    pub(crate) fn take_lower(&self, other: Run) -> Option<Run> {
        let (start, len) =
            (terrace_sys::size::to_usize(other.start), terrace_sys::size::to_usize(other.len));
        let (n, end) = (start / SLAB_GRANULES, start % SLAB_GRANULES);
        self.take_between(n, 0..end, len).map(|start| run(n, start, len))
    }

    /// Whether everything is to be moved out of the slab of a granule.
    pub(crate) fn is_draining(&self, granule: u64) -> bool {
        let n = terrace_sys::size::to_usize(granule) / SLAB_GRANULES;
        self.slab(n).is(State::Draining)
    }

    /// Ends what [`Slabs::drain`] began.
    pub(crate) fn end_draining(&self, drained: &[usize]) {
        let mut shelf = lock(&self.shelf);
        for n in drained.iter().filter(|n| self.slab(**n).is(State::Draining)) {
            self.slab(*n).set(State::Idle);
            self.empty_if_unused(&mut shelf, *n);
        }
    }
}

impl Drop for Slabs {
    /// What is left in a region is nobody's any more: it leaves memory without being written.
    fn drop(&mut self) {
        self.memory.end(self.high() * SLAB_BYTES);
    }
}

fn run(slab: usize, start: usize, len: usize) -> Run {
    Run { start: to_u64(slab * SLAB_GRANULES + start), len: to_u64(len) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

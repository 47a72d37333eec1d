//! State of one slab, except for the bitmap of its used granules.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use terrace_sys::size::to_u64;

use crate::groups::run::SLAB_GRANULES;

/// Minimum number of free granules at which a slab serves allocations or is drained again: a
/// sixteenth of the slab.
pub(super) const WORTH_GRANULES: usize = SLAB_GRANULES / 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// Without memory, and not charged to the budget.
    Empty = 0,
    /// A group of threads allocates from the slab.
    Open = 1,
    /// In use, but no group of threads allocates from it.
    Idle = 2,
    /// Defragmentation moves its runs to other slabs, or to lower granules of this one; nothing
    /// else is allocated from it.
    Draining = 3,
    /// Part of a run that is longer than a slab.
    Large = 4,
}

/// State of a slab, except for the bitmap of its used granules. Zero bytes are an empty slab.
pub(super) struct Slab {
    state: AtomicU32,
    /// Granules that are neither claimed nor about to be claimed; meaningless while the slab is
    /// empty.
    free: AtomicI32,
    /// Upper half: number of runs freed so far. Lower half: upper bound of the length of the
    /// longest free run, in granules.
    longest: AtomicU64,
}

impl Slab {
    pub(super) fn is(&self, state: State) -> bool {
        self.state.load(Ordering::SeqCst) == state as u32
    }

    pub(super) fn set(&self, state: State) {
        self.state.store(state as u32, Ordering::SeqCst);
    }

    pub(super) fn free(&self) -> usize {
        usize::try_from(self.free.load(Ordering::SeqCst)).unwrap_or(0)
    }

    /// Marks an empty slab as one run of `free` granules.
    pub(super) fn furnish(&self, state: State, free: usize) {
        self.longest.store(to_u64(free), Ordering::SeqCst);
        self.free.store(i32::try_from(free).unwrap_or(i32::MAX), Ordering::SeqCst);
        self.set(state);
    }

    /// Counts granules as used. Returns false if fewer are free: the caller claims none then, and
    /// counts them as free again.
    pub(super) fn count_used(&self, granules: usize) -> bool {
        let granules = i32::try_from(granules).unwrap_or(i32::MAX);
        self.free.fetch_sub(granules, Ordering::SeqCst) >= granules
    }

    /// Counts granules as free. Returns true if all granules of the slab are.
    pub(super) fn count_free(&self, granules: usize) -> bool {
        let granules = i32::try_from(granules).unwrap_or(i32::MAX);
        let free = self.free.fetch_add(granules, Ordering::SeqCst) + granules;
        usize::try_from(free) == Ok(SLAB_GRANULES)
    }

    /// Returns the word to pass to [`Slab::has_no_run`] after a search.
    pub(super) fn before_search(&self) -> u64 {
        self.longest.load(Ordering::SeqCst)
    }

    /// True if a run of `len` granules may be free in this slab.
    pub(super) fn may_have(&self, len: usize) -> bool {
        let longest = self.longest.load(Ordering::SeqCst) & LENGTH;
        self.free() >= len && longest >= to_u64(len)
    }

    /// True if this slab is idle and worth allocating `len` granules from.
    pub(super) fn promises(&self, len: usize) -> bool {
        self.is(State::Idle) && self.free() >= WORTH_GRANULES && self.may_have(len)
    }

    /// Notes that a run was freed and forms, with its free neighbours, a free run of `len`
    /// granules.
    pub(super) fn has_run(&self, len: usize) {
        let more = |word: u64| {
            Some((word & !LENGTH).wrapping_add(GIVEN) | (word & LENGTH).max(to_u64(len)))
        };
        let _ = self.longest.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
    }

    /// Notes that a search of the whole slab found no run of `len` granules. `before` is the word
    /// as it was before the search: if a run was freed since, it may be such a run, and nothing is
    /// noted.
    pub(super) fn has_no_run(&self, before: u64, len: usize) {
        let longest = (before & LENGTH).min(to_u64(len) - 1);
        let now = before & !LENGTH | longest;
        let _ = self.longest.compare_exchange(before, now, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// The part of the word that is a length, and the lowest bit of the count.
const LENGTH: u64 = u32::MAX as u64;
const GIVEN: u64 = 1 << 32;

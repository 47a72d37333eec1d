//! Page states: one word in the page-table entry, and every legal step between states.
//!
//! ```text
//!            allocate                    evict
//!   Free -----------------> Resident ------------> Stored
//!    ^  \------------------->  ^  ^ \_ move           |  adopt: Free -> Stored
//!    |         free            |  `---'               |
//!    +-------------------------+       load           v
//!    +------------------------ | <----------------- Loading
//!                free          `----- loaded          |  failed: Loading -> Stored
//! ```
//!
//! A page in `Resident` is changed only by the exclusive holder of its frame's latch; a page in
//! `Loading` only by the thread that brought it there. A page leaves `Free` or `Stored` by a
//! compare-and-exchange, which one thread wins.
//!
//! ```text
//! bits 63..36  life: generation of the id, +1 whenever the page becomes free
//! bits 35..8   frame
//! bit  3       doomed: to be freed as soon as no thread holds or loads the page
//! bit  2       parked: a thread sleeps on this word
//! bits 1..0    the kind of state
//! ```
//!
//! The id of a freed page may be reused at once (ABA). Doom is therefore a bit of the same word:
//! only an existing page can be doomed, and the bit is cleared when the page is freed. A thread
//! that frees a page it saw doomed compares the life that it saw. Neither a late doom nor a late
//! free can hit the page that reuses the id.

use std::time::Instant;

use crate::page::{FRAME_BITS, FrameId};
use crate::sync::{AtomicU64, Ordering};
use terrace_latch::{Look, ParkingLot};

const KIND_MASK: u64 = 0b11;
const PARKED: u64 = 0b100;
const DOOMED: u64 = 0b1000;
const FRAME_SHIFT: u32 = 8;
const FRAME_MASK: u64 = ((1 << FRAME_BITS) - 1) << FRAME_SHIFT;
const LIFE_ONE: u64 = 1 << (FRAME_SHIFT + FRAME_BITS);
const LIFE_MASK: u64 = !(LIFE_ONE - 1);

/// State of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageState {
    /// The id is not in use.
    Free,
    /// On the store only.
    Stored,
    /// Being loaded from the store into a frame.
    Loading,
    /// In this frame; the store may have a copy.
    Resident(FrameId),
}

impl PageState {
    fn word(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Stored => 1,
            Self::Loading => 2,
            Self::Resident(frame) => 3 | u64::from(frame.0) << FRAME_SHIFT,
        }
    }

    fn of(word: u64) -> Self {
        match word & KIND_MASK {
            0 => Self::Free,
            1 => Self::Stored,
            2 => Self::Loading,
            // The mask leaves the 28 bits of a frame id.
            _ => Self::Resident(FrameId(((word & FRAME_MASK) >> FRAME_SHIFT) as u32)),
        }
    }

    /// True if a page may go from this state to `to` in one step.
    pub(crate) fn leads_to(self, to: Self) -> bool {
        use PageState::{Free, Loading, Resident, Stored};
        match (self, to) {
            (Free, Resident(_) | Stored) => true,
            (Stored, Loading | Free) => true,
            (Loading, Resident(_) | Stored | Free) => true,
            (Resident(from), Resident(to)) => from != to,
            (Resident(_), Stored | Free) => true,
            (Free, Free | Loading) => false,
            (Stored, Stored | Resident(_)) => false,
            (Loading, Loading) => false,
            (Resident(_), Loading) => false,
        }
    }
}

/// Snapshot of a page's word: its state, its doomed bit, and its life, which is the generation of
/// the id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen(u64);

impl Seen {
    fn of(word: u64) -> Self {
        Self(word & !PARKED)
    }

    pub(crate) fn state(self) -> PageState {
        PageState::of(self.0)
    }

    pub(crate) fn is_doomed(self) -> bool {
        self.0 & DOOMED != 0
    }

    /// True if both snapshots are of the same page, rather than of two pages that had the id one
    /// after the other.
    pub(crate) fn same_life(self, other: Self) -> bool {
        (self.0 ^ other.0) & LIFE_MASK == 0
    }
}

/// Returns the word that follows `word` when its page goes to `to`.
fn word_after(word: u64, to: PageState) -> u64 {
    match to {
        PageState::Free => (word & LIFE_MASK).wrapping_add(LIFE_ONE),
        _ => (word & (LIFE_MASK | DOOMED)) | to.word(),
    }
}

/// Atomic word that holds a [`PageState`]. All zero bytes are `Free`.
#[derive(Debug)]
pub(crate) struct StateWord(AtomicU64);

impl StateWord {
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn get(&self) -> PageState {
        PageState::of(self.0.load(Ordering::SeqCst))
    }

    pub(crate) fn look(&self) -> Seen {
        Seen::of(self.0.load(Ordering::SeqCst))
    }

    /// Moves the page from `from` to `to` and wakes the threads that wait for its state to change.
    /// Returns the new word, or `None` if the page is not in `from`.
    pub(crate) fn step(&self, lot: &ParkingLot, from: PageState, to: PageState) -> Option<Seen> {
        debug_assert!(from.leads_to(to), "a page cannot go from {from:?} to {to:?}");
        let in_from = |word| PageState::of(word) == from;
        self.change(lot, in_from, |word| word_after(word, to))
    }

    /// Marks the page as doomed, to be freed as soon as no thread holds or loads it. Returns the
    /// new word, or `None` if the id is free.
    pub(crate) fn doom(&self) -> Option<Seen> {
        let mut word = self.0.load(Ordering::SeqCst);
        while PageState::of(word) != PageState::Free {
            // Parked threads stay parked: the state does not change.
            let doomed = word | DOOMED;
            match self.0.compare_exchange(word, doomed, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(Seen::of(doomed)),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Frees the page if its word is still `seen`, in the same life. Returns true if it did.
    pub(crate) fn end(&self, lot: &ParkingLot, seen: Seen) -> bool {
        debug_assert!(seen.state().leads_to(PageState::Free), "{:?} cannot end", seen.state());
        let unchanged = |word| Seen::of(word) == seen;
        self.change(lot, unchanged, |word| word_after(word, PageState::Free)).is_some()
    }

    fn change(
        &self,
        lot: &ParkingLot,
        may: impl Fn(u64) -> bool,
        to: impl Fn(u64) -> u64,
    ) -> Option<Seen> {
        let mut word = self.0.load(Ordering::Relaxed);
        while may(word) {
            let next = to(word);
            match self.0.compare_exchange(word, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    if word & PARKED != 0 {
                        lot.unpark(self.key());
                    }
                    return Some(Seen::of(next));
                }
                Err(now) => word = now,
            }
        }
        None
    }

    /// Sleeps while the page is loading. Returns its state afterwards, or `None` if `deadline`
    /// passed.
    pub(crate) fn loaded(&self, lot: &ParkingLot, deadline: Option<Instant>) -> Option<PageState> {
        lot.park(self.key(), deadline, || {
            loop {
                let word = self.0.load(Ordering::SeqCst);
                let state = PageState::of(word);
                if state != PageState::Loading {
                    return Look::Done(state);
                }
                let parked = word | PARKED;
                let swapped =
                    self.0.compare_exchange(word, parked, Ordering::SeqCst, Ordering::Relaxed);
                if word == parked || swapped.is_ok() {
                    return Look::Sleep;
                }
            }
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const STATES: [PageState; 5] = [
        PageState::Free,
        PageState::Stored,
        PageState::Loading,
        PageState::Resident(FrameId(0)),
        PageState::Resident(FrameId(u32::MAX >> 4)),
    ];

    #[test]
    fn words_keep_states() {
        for state in STATES {
            assert_eq!(PageState::of(state.word()), state);
            assert_eq!(PageState::of(state.word() | PARKED | DOOMED | LIFE_MASK), state);
        }
    }

    #[test]
    fn only_the_drawn_steps_are_legal() {
        let legal = |from: PageState| STATES.iter().filter(|to| from.leads_to(**to)).count();
        assert_eq!(STATES.map(legal), [3, 2, 4, 3, 3]);
        assert!(!PageState::Free.leads_to(PageState::Loading));
        assert!(!STATES[3].leads_to(STATES[3]));
    }

    #[test]
    fn a_step_from_another_state_is_refused() {
        let (word, lot) = (StateWord::new(), ParkingLot::new());
        assert!(word.step(&lot, PageState::Free, PageState::Stored).is_some());
        assert!(word.step(&lot, PageState::Free, PageState::Stored).is_none());
        assert!(word.step(&lot, PageState::Stored, PageState::Loading).is_some());
        assert_eq!(word.get(), PageState::Loading);
        let soon = Some(Instant::now());
        assert_eq!(word.loaded(&lot, soon), None);
        assert!(word.step(&lot, PageState::Loading, STATES[3]).is_some());
        assert_eq!(word.loaded(&lot, None), Some(STATES[3]));
    }

    #[test]
    fn doom_goes_with_the_page_and_ends_with_it() {
        let (word, lot) = (StateWord::new(), ParkingLot::new());
        assert_eq!(word.doom(), None, "there is no page");
        word.step(&lot, PageState::Free, STATES[4]).expect("free");
        let doomed = word.doom().expect("a page");
        assert!(doomed.is_doomed() && doomed.state() == STATES[4]);
        let stored = word.step(&lot, STATES[4], PageState::Stored).expect("resident");
        assert!(stored.is_doomed() && stored.same_life(doomed));
        assert!(!word.end(&lot, doomed), "it is elsewhere by now");
        assert!(word.end(&lot, stored));
        let next = word.step(&lot, PageState::Free, PageState::Stored).expect("free");
        assert!(!next.is_doomed() && !next.same_life(stored));
        assert!(!word.end(&lot, stored), "the id names another page by now");
    }

    #[test]
    fn lives_wrap() {
        let word = word_after(LIFE_MASK | DOOMED, PageState::Free);
        assert_eq!(word, 0);
    }
}

//! The state of a page: one word in its page-table entry, and every legal step between states.
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
//! `Loading` only by the thread that brought it there. `Free` and `Stored` are left by whoever wins
//! the exchange.

use std::time::Instant;

use crate::page::FrameId;
use crate::park::{Look, ParkingLot};
use crate::sync::{AtomicU64, Ordering};

const KIND_MASK: u64 = 0b11;
const PARKED: u64 = 0b100;
const FRAME_SHIFT: u32 = 8;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageState {
    /// The id is not in use.
    Free,
    /// On the store alone.
    Stored,
    /// On its way from the store into a frame.
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
            // A frame id was a u32 when it was shifted in.
            #[expect(clippy::cast_possible_truncation)]
            _ => Self::Resident(FrameId((word >> FRAME_SHIFT) as u32)),
        }
    }

    /// Whether a page may go from this state to `to` in one step.
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

/// The word that holds a [`PageState`]. All zero bytes are `Free`.
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

    /// Takes the page from `from` to `to`, waking whoever waits for it to change. False when it is
    /// not in `from`.
    pub(crate) fn step(&self, lot: &ParkingLot, from: PageState, to: PageState) -> bool {
        debug_assert!(from.leads_to(to), "a page cannot go from {from:?} to {to:?}");
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & !PARKED != from.word() {
                return false;
            }
            match self.0.compare_exchange(word, to.word(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    if word & PARKED != 0 {
                        lot.unpark(self.key());
                    }
                    return true;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Sleeps while the page is loading; its state after, or `None` when `deadline` passed.
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
            assert_eq!(PageState::of(state.word() | PARKED), state);
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
        assert!(word.step(&lot, PageState::Free, PageState::Stored));
        assert!(!word.step(&lot, PageState::Free, PageState::Stored));
        assert!(word.step(&lot, PageState::Stored, PageState::Loading));
        assert_eq!(word.get(), PageState::Loading);
        let soon = Some(Instant::now());
        assert_eq!(word.loaded(&lot, soon), None);
        assert!(word.step(&lot, PageState::Loading, STATES[3]));
        assert_eq!(word.loaded(&lot, None), Some(STATES[3]));
    }
}

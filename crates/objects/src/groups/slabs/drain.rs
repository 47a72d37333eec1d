//! Draining of slabs: the choice of slabs whose runs defragmentation moves elsewhere.

use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;

use super::slab::{State, WORTH_GRANULES};
use super::{Slabs, run};
use crate::groups::run::{Run, SLAB_GRANULES};

/// Reason to drain slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Memory is returned to the budget where that is cheap.
    Tidiness,
    /// An allocation of this number of granules failed: holes are joined even at the price of many
    /// moves.
    Room(u64),
}

/// Maximum number of slabs drained at once for a caller that waits for a run of at most a slab:
/// some milliseconds of work.
const HURRIED_SLABS: usize = 8;

impl Slabs {
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
        let (start, len) = (to_usize(other.start), to_usize(other.len));
        let (n, end) = (start / SLAB_GRANULES, start % SLAB_GRANULES);
        self.take_between(n, 0..end, len).map(|start| run(n, start, len))
    }

    /// True if the slab of a granule is being drained.
    pub(crate) fn is_draining(&self, granule: u64) -> bool {
        let n = to_usize(granule) / SLAB_GRANULES;
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

//! Hysteresis in time: who was just given memory keeps it for a while.

use std::collections::BTreeMap;

/// Remembers who was given memory, and for how long it keeps it.
///
/// What a grant rose by nobody may take for some rounds: its patience. Whoever loses it right
/// after and gets it back soon has its patience doubled, up to a most; whoever keeps still gets
/// it halved. So a workload that flips back and forth, even one that flips because of what
/// the market did, moves memory ever more seldom, while one that changes for good is followed.
#[derive(Clone, Debug)]
pub(crate) struct Damper {
    rounds_min: u64,
    rounds_max: u64,
    marks: BTreeMap<u64, Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    /// When its patience began,
    round: u64,
    /// for how many rounds,
    patience: u64,
    /// and by how many bytes it has grown since.
    gained: u64,
    /// Whether it shrank since.
    shrank: bool,
}

/// Who grows again after more than this many times its patience, and after
const CALM: u64 = 4;
/// so many rounds, does not oscillate: it has other work.
const CALM_ROUNDS: u64 = 8;

impl Damper {
    pub(crate) fn new(rounds_min: u64, rounds_max: u64) -> Self {
        Self { rounds_min, rounds_max: rounds_max.max(rounds_min), marks: BTreeMap::new() }
    }

    /// The bytes that it keeps in this round.
    pub(crate) fn kept(&self, id: u64, round: u64) -> u64 {
        let mark = self.marks.get(&id).filter(|mark| mark.is_patient(round));
        mark.map_or(0, |mark| mark.gained)
    }

    /// Learns that a grant rose.
    pub(crate) fn grew(&mut self, id: u64, round: u64, bytes: u64) {
        let fresh = Mark { round, patience: self.rounds_min, gained: bytes, shrank: false };
        let mark = self.marks.entry(id).or_insert(Mark { gained: 0, ..fresh });
        if mark.is_patient(round) {
            mark.gained = mark.gained.saturating_add(bytes);
            return;
        }
        if mark.shrank {
            let since = round.saturating_sub(mark.round);
            let calm = since > mark.patience.saturating_mul(CALM).max(CALM_ROUNDS);
            let patience = if calm { mark.patience / 2 } else { mark.patience.saturating_mul(2) };
            mark.patience = patience.clamp(self.rounds_min, self.rounds_max);
        }
        *mark = Mark { patience: mark.patience, ..fresh };
    }

    /// Learns that a grant fell.
    pub(crate) fn shrank(&mut self, id: u64) {
        if let Some(mark) = self.marks.get_mut(&id) {
            mark.shrank = true;
        }
    }

    /// Forgets who is no longer there.
    pub(crate) fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        self.marks.retain(|id, _| is_there(*id));
    }
}

impl Mark {
    fn is_patient(&self, round: u64) -> bool {
        round < self.round.saturating_add(self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds in which a consumer shrank from which everything is taken as soon as it may be.
    fn losses(rounds: u64) -> Vec<u64> {
        let mut damper = Damper::new(2, 64);
        let mut has = false;
        let mut losses = Vec::new();
        for round in 0..rounds {
            if !has {
                damper.grew(7, round, 100);
                has = true;
            } else if damper.kept(7, round) == 0 {
                damper.shrank(7);
                losses.push(round);
                has = false;
            }
        }
        losses
    }

    #[test]
    fn what_goes_back_and_forth_moves_seldom() {
        let losses = losses(1000);
        assert_eq!(losses[..6], [2, 7, 16, 33, 66, 131]);
        assert!(losses.len() < 24, "{losses:?}");
    }

    #[test]
    fn who_goes_on_is_not_held_up() {
        let mut damper = Damper::new(4, 64);
        for round in 0..6 {
            damper.grew(1, round, 10);
        }
        assert_eq!([5, 7, 8].map(|round| damper.kept(1, round)), [20, 20, 0], "since round 4");
        damper.shrank(1);
        assert_eq!(damper.kept(2, 5), 0, "somebody else");
        damper.grew(1, 1000, 3);
        assert_eq!([1003, 1004].map(|round| damper.kept(1, round)), [3, 0], "that was long ago");
        damper.keep(|id| id != 1);
        assert_eq!(damper.kept(1, 1000), 0);
    }
}

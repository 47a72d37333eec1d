//! Hysteresis in time: protects a new grant from other buyers for a number of rounds.

use std::collections::BTreeMap;

/// Patience of each consumer: the rounds for which its last gain is protected.
///
/// While its patience lasts, no buyer can take the bytes by which a consumer's grant rose. A
/// consumer that loses memory and gains some again soon has its patience doubled, up to a maximum;
/// one that gains some again much later has it halved. Memory therefore moves less and less often
/// under a workload that oscillates, even if the market itself causes the oscillation, while a
/// lasting change is followed.
#[derive(Clone, Debug)]
pub(crate) struct Damper {
    rounds_min: u64,
    rounds_max: u64,
    marks: BTreeMap<u64, Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Round in which the patience began.
    round: u64,
    /// Number of rounds of the patience.
    patience: u64,
    /// Bytes by which the grant has risen since the patience began.
    gained: u64,
    /// True if the grant has fallen since.
    shrank: bool,
}

/// A consumer that grows again after more than this many times its patience is not oscillating.
const CALM: u64 = 4;
/// Minimum number of rounds before a consumer that grows again counts as not oscillating.
const CALM_ROUNDS: u64 = 8;

impl Damper {
    pub(crate) fn new(rounds_min: u64, rounds_max: u64) -> Self {
        Self { rounds_min, rounds_max: rounds_max.max(rounds_min), marks: BTreeMap::new() }
    }

    /// Returns the bytes that are protected in this round.
    pub(crate) fn kept(&self, id: u64, round: u64) -> u64 {
        let mark = self.marks.get(&id).filter(|mark| mark.is_patient(round));
        mark.map_or(0, |mark| mark.gained)
    }

    /// Records that a grant rose.
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

    /// Records that a grant fell.
    pub(crate) fn shrank(&mut self, id: u64) {
        if let Some(mark) = self.marks.get_mut(&id) {
            mark.shrank = true;
        }
    }

    /// Removes the consumers for which `is_there` returns false.
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

    /// Returns the rounds in which a consumer lost its memory to a buyer that takes it as soon as
    /// it may.
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
        assert_eq!(damper.kept(2, 5), 0, "another consumer");
        damper.grew(1, 1000, 3);
        assert_eq!([1003, 1004].map(|round| damper.kept(1, round)), [3, 0], "that was long ago");
        damper.keep(|id| id != 1);
        assert_eq!(damper.kept(1, 1000), 0);
    }
}

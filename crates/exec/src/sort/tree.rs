//! Loser tree (Knuth, The Art of Computer Programming 3, section 5.4.1).
//!
//! An entry is the prefix of a run's first row and the run's number in one word, so that most
//! matches are one comparison; only equal prefixes that are open require the whole keys.

use std::cmp::Ordering;

/// Entry of an exhausted run, which loses to every row.
const EXHAUSTED: u128 = u128::MAX;

/// Loser tree of runs by their first rows.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The winner, then the losers of the inner matches.
    nodes: Vec<u128>,
    runs: usize,
}

fn entry(run: usize, head: Option<u64>) -> u128 {
    head.map_or(EXHAUSTED, |prefix| u128::from(prefix) << 32 | run as u128)
}

#[allow(clippy::cast_possible_truncation, reason = "the run is in the low 32 bits")]
fn run_of(entry: u128) -> usize {
    entry as u32 as usize
}

#[allow(clippy::cast_possible_truncation, reason = "the prefix is 64 bits wide")]
fn prefix_of(entry: u128) -> u64 {
    (entry >> 32) as u64
}

impl Tree {
    /// Builds the tree of runs whose first rows have the prefixes `heads`; `None` is an exhausted
    /// run. `tie` compares the first rows of two runs of equal prefix.
    pub(crate) fn new(heads: &[Option<u64>], tie: impl Fn(u64, usize, usize) -> Ordering) -> Self {
        let runs = heads.len();
        let mut nodes = vec![EXHAUSTED; runs.max(1)];
        let mut winners = vec![EXHAUSTED; runs * 2];
        for (run, head) in heads.iter().enumerate() {
            winners[runs + run] = entry(run, *head);
        }
        for node in (1..runs).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let left_wins = before(left, right, &tie);
            winners[node] = if left_wins { left } else { right };
            nodes[node] = if left_wins { right } else { left };
        }
        nodes[0] = winners.get(1).copied().unwrap_or(EXHAUSTED);
        Self { nodes, runs }
    }

    /// Returns the run whose first row precedes those of all others; `None` if all are exhausted.
    #[inline]
    pub(crate) fn winner(&self) -> Option<usize> {
        let winner = self.nodes[0];
        (winner != EXHAUSTED).then(|| run_of(winner))
    }

    /// Updates the tree after run `winner` advanced to a row of prefix `head`, or ended if `None`.
    #[inline]
    pub(crate) fn replay(
        &mut self,
        winner: usize,
        head: Option<u64>,
        tie: impl Fn(u64, usize, usize) -> Ordering,
    ) {
        let mut current = entry(winner, head);
        let mut node = (winner + self.runs) / 2;
        while node > 0 {
            let other = self.nodes[node];
            let wins = before(other, current, &tie);
            self.nodes[node] = if wins { current } else { other };
            current = if wins { other } else { current };
            node /= 2;
        }
        self.nodes[0] = current;
    }
}

#[inline]
fn before(left: u128, right: u128, tie: &impl Fn(u64, usize, usize) -> Ordering) -> bool {
    if (left ^ right) >> 32 == 0 && left != EXHAUSTED && right != EXHAUSTED {
        let order = tie(prefix_of(left), run_of(left), run_of(right));
        return order.then(left.cmp(&right)) == Ordering::Less;
    }
    left < right
}

#[cfg(test)]
mod tests {
    use terrace_testkit::Rng;

    use super::*;

    #[test]
    fn merges_as_sorting_does() {
        let mut rng = Rng::new(1);
        for runs in 0..20 {
            let mut all: Vec<Vec<u64>> = Vec::new();
            for _ in 0..runs {
                let len = rng.index(9);
                let mut run: Vec<u64> = (0..len).map(|_| rng.below(12)).collect();
                run.sort_unstable();
                all.push(run);
            }
            let mut at = vec![0; runs];
            let heads: Vec<_> = all.iter().map(|run| run.first().copied()).collect();
            let tie = |_: u64, _: usize, _: usize| Ordering::Equal;
            let mut tree = Tree::new(&heads, tie);
            let mut merged = Vec::new();
            while let Some(winner) = tree.winner() {
                merged.push((all[winner][at[winner]], winner));
                at[winner] += 1;
                tree.replay(winner, all[winner].get(at[winner]).copied(), tie);
            }
            let each = |(run, rows): (usize, &Vec<u64>)| {
                rows.iter().map(move |v| (*v, run)).collect::<Vec<_>>()
            };
            let mut expected: Vec<_> = all.iter().enumerate().flat_map(each).collect();
            expected.sort_unstable();
            assert_eq!(merged, expected);
        }
    }
}

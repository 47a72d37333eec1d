//! Distributions of accesses over the objects.

use serde::Serialize;
use terrace_objects::ObjectId;
use terrace_sys::size::to_usize;
use terrace_workload::random::Random;
use terrace_workload::zipf::{Scatter, Zipf};

/// Exponent of the skewed (Zipf) distribution, as in YCSB.
const THETA: f64 = 0.99;
/// Number of ids that a thread draws before it is timed, and cycles through.
const DRAWS: usize = 1 << 20;

/// Distribution of accesses over the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Popularity {
    Uniform,
    Zipf,
}

impl Popularity {
    pub(super) const ALL: [Popularity; 2] = [Popularity::Uniform, Popularity::Zipf];

    pub(super) fn name(self) -> &'static str {
        match self {
            Popularity::Uniform => "uniform",
            Popularity::Zipf => "Zipf",
        }
    }

    /// Draws [`DRAWS`] ids from `ids`.
    pub(super) fn draw(self, ids: &[ObjectId], seed: u64) -> Vec<ObjectId> {
        let (mut chance, count) = (Random::new(seed, 0), ids.len() as u64);
        let (zipf, scatter) = (Zipf::new(count, THETA), Scatter::new(count));
        let mut one = || match self {
            Popularity::Uniform => chance.below(count),
            Popularity::Zipf => scatter.place(zipf.draw(|| chance.fraction())),
        };
        (0..DRAWS).map(|_| ids[to_usize(one())]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_draws_come_back_to_few() {
        let ids: Vec<ObjectId> = (1..=1000).map(ObjectId::from_bits).collect();
        let often = |popularity: Popularity| {
            let mut counts = std::collections::HashMap::new();
            for id in popularity.draw(&ids, 1) {
                *counts.entry(id).or_insert(0_usize) += 1;
            }
            counts.into_values().max().unwrap_or(0)
        };
        let even = DRAWS / ids.len();
        assert!(often(Popularity::Uniform) < 2 * even);
        assert!(often(Popularity::Zipf) > 50 * even);
    }
}

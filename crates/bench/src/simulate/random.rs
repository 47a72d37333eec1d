//! Seeded pseudo-random numbers.

use terrace_sys::size::to_u64;

use super::number::{count, float};

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): the same seed always gives the same numbers. It
/// differs from the generator of the workloads in its first state: the traces of published figures
/// come from it.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns a number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        float(self.next() >> 11) / float(1 << 53)
    }

    /// Returns an exponentially distributed pause between events of rate `per_second`, in
    /// nanoseconds.
    pub(super) fn pause_nanos(&mut self, per_second: f64) -> u64 {
        count(-(1.0 - self.unit()).ln() / per_second.max(1e-9) * 1e9)
    }
}

/// Zipf distribution over numbers below a bound: the k-th has weight `1 / k^exponent`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// Cumulative weights.
    sums: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(bound: u64, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=bound).map(|rank| {
            sum += float(rank).powf(-exponent);
            sum
        });
        Self { sums: weights.collect() }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let at = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        to_u64(self.sums.partition_point(|sum| *sum <= at))
    }
}

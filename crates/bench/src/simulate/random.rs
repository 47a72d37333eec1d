//! Seeded pseudo-random numbers.

use terrace_sys::number::{count, float};
use terrace_sys::split_mix;

/// Random number generator of the traces of published figures ([`split_mix`]). It starts from a
/// different state than that of the workloads.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        split_mix::next(&mut self.0)
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

//! Histogram of reuse distances with logarithmic buckets.

use crate::number::{count, float, index, len};

/// Unit of distances in bytes; the first octave covers the distances below it.
const UNIT_BYTES: u64 = 4096;
/// Buckets per octave: distances have a resolution of 3 %.
const PER_OCTAVE: u64 = 32;
/// Number of octaves above the unit: up to 2^52 bytes.
const OCTAVES: u64 = 40;

/// Weights by distance in bytes.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    weights: Vec<f64>,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { weights: vec![0.0; index(PER_OCTAVE * (OCTAVES + 1))] }
    }

    /// Adds weight at a distance in bytes.
    pub(super) fn add(&mut self, bytes: f64, weight: f64) {
        let last = self.weights.len() - 1;
        self.weights[bucket(bytes).min(last)] += weight;
    }

    /// Multiplies every weight by `factor`.
    pub(super) fn scale(&mut self, factor: f64) {
        for weight in &mut self.weights {
            *weight *= factor;
        }
    }

    /// Returns the sum of all weights.
    pub(super) fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Returns the start and end in bytes of each bucket with weight, and the cumulative weight.
    pub(super) fn cumulated(&self) -> impl Iterator<Item = (u64, u64, f64)> {
        let mut sum = 0.0;
        let filled = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        filled.map(move |(at, weight)| {
            sum += weight;
            (start(len(at)), start(len(at) + 1), sum)
        })
    }
}

/// Returns the bucket of a distance. An octave has 32 equal buckets.
fn bucket(bytes: f64) -> usize {
    let units = bytes / float(UNIT_BYTES);
    if units < 1.0 {
        return index(count(units * float(PER_OCTAVE)));
    }
    let octave = u64::from(count(units).max(1).ilog2());
    let within = units / float(1 << octave) - 1.0;
    index(PER_OCTAVE * (octave + 1) + count(within * float(PER_OCTAVE)).min(PER_OCTAVE - 1))
}

/// Returns the smallest number of bytes in a bucket.
fn start(bucket: u64) -> u64 {
    let (octave, within) = (bucket / PER_OCTAVE, bucket % PER_OCTAVE);
    match octave {
        0 => UNIT_BYTES * within / PER_OCTAVE,
        octave => (UNIT_BYTES * (PER_OCTAVE + within) / PER_OCTAVE) << (octave - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_is_in_its_bucket() {
        let mut bytes = 1_u64;
        while bytes < 1 << 50 {
            let at = len(bucket(float(bytes)));
            assert!(start(at) <= bytes && bytes < start(at + 1), "{bytes} in {at}");
            bytes += bytes / 7 + 1;
        }
        let mut histogram = Histogram::new();
        histogram.add(1e300, 1.0);
        histogram.add(-1.0, 1.0);
        assert_eq!(histogram.total(), 2.0);
    }
}

//! Miss-ratio curves by sampling (SHARDS).

use std::collections::BTreeMap;

use terrace_sys::split_mix;

use super::{distance::Touches, histogram::Histogram, point::Point, polyline::Curve};
use crate::number::{float, float_len};

/// Miss-ratio curve of an LRU cache, from a small sample of its pages.
///
/// This is SHARDS with a fixed number of samples (Waldspurger et al., FAST 2015, sections 3.3 and
/// 4.3). A page is sampled while the hash of its id is below a threshold. When too many pages are
/// sampled, the threshold falls to the largest hash among them, and that page is dropped. Distances
/// among sampled pages, divided by the sampling rate, estimate distances among all pages. Instead
/// of scaling old counts whenever the rate falls, each touch has a weight of one over the rate of
/// its time, which is equivalent. The difference between the weights seen and the touches counted
/// goes to the shortest distance, as in the paper's adjustment (SHARDS-adj).
///
/// Distances are in bytes, so pages of any size share one curve.
///
/// # Cost
/// An unsampled page costs a hash and a comparison. A sampled page costs two walks of a tree;
/// `samples_max` pages take about 100 bytes each.
#[derive(Clone, Debug)]
pub struct Shards {
    samples_max: usize,
    /// Upper bound of the hashes of sampled pages.
    threshold: u64,
    /// Last touch of each sampled page, by the hash of its id, which is one to one.
    watched: BTreeMap<u64, SampledPage>,
    touches: Touches,
    distances: Histogram,
    /// Total weight of first touches.
    first: f64,
    /// Touches counted, sampled or not; scaled by ageing like the weights.
    counted: f64,
}

#[derive(Clone, Copy, Debug)]
struct SampledPage {
    place: usize,
    bytes: u64,
}

/// Positions in the order of touches per sample: a renumbering walks over all samples, once per
/// three touches per sample.
const PLACES_PER_SAMPLE: usize = 4;
/// Minimum number of samples for a meaningful curve.
const SAMPLES_MIN: usize = 16;

impl Shards {
    /// Returns a sampler of at most `samples_max` pages, 16 at least. The published error with
    /// 8,192 is 0.0027 on average; with 1,024 it stays below 0.02 in most traces.
    #[must_use]
    pub fn new(samples_max: usize) -> Self {
        let samples_max = samples_max.max(SAMPLES_MIN);
        Self {
            samples_max,
            threshold: u64::MAX,
            watched: BTreeMap::new(),
            touches: Touches::new(samples_max.saturating_mul(PLACES_PER_SAMPLE)),
            distances: Histogram::new(),
            first: 0.0,
            counted: 0.0,
        }
    }

    /// Records one touch of a page of `bytes` bytes.
    pub fn touch(&mut self, page: u64, bytes: u64) {
        self.counted += 1.0;
        let hash = split_mix::hash(page);
        if hash < self.threshold {
            self.watch(hash, bytes);
        }
    }

    /// Returns the hash from which on a page is not sampled.
    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Records touches of unsampled pages.
    pub(super) fn pass(&mut self, touches: u64) {
        self.counted += float(touches);
    }

    /// Multiplies the weight of everything seen so far by `factor`, so that the curve follows the
    /// recent workload. A factor of 0.5 once a second halves the weight of the past each second.
    pub fn age(&mut self, factor: f64) {
        let factor = factor.clamp(0.0, 1.0);
        self.distances.scale(factor);
        self.first *= factor;
        self.counted *= factor;
    }

    /// Returns the number of touches that count, aged.
    #[must_use]
    pub fn counted(&self) -> f64 {
        self.counted
    }

    /// Returns the fraction of pages sampled, in (0, 1].
    #[must_use]
    pub fn rate(&self) -> f64 {
        float(self.threshold) / float(u64::MAX)
    }

    /// Returns the ratio of touches that miss as a function of the bytes of an LRU cache; 1 before
    /// any touch.
    ///
    /// First touches count as misses at any size.
    #[must_use]
    pub fn miss_ratio(&self) -> Curve {
        self.curve(self.first)
    }

    /// Returns [`Shards::miss_ratio`] without first touches, for a cache that has been running for
    /// long and has its first touches far in the past.
    #[must_use]
    pub fn reuse_miss_ratio(&self) -> Curve {
        self.curve(0.0)
    }

    fn curve(&self, first: f64) -> Curve {
        let reused = self.distances.total();
        let unseen = self.counted - self.first - reused;
        // A first touch is no reuse. The touches that the sample missed or overcounted are assigned
        // to pages that are touched again at once.
        let total = reused + unseen + first;
        if total <= 0.0 {
            return Curve::flat(1.0);
        }
        let missing = |hits: f64| (1.0 - (hits + unseen) / total).clamp(0.0, 1.0);
        let mut points = vec![Point::new(0, 1.0)];
        for (from, to, hits) in self.distances.cumulated() {
            let before = points.last().map_or(1.0, |point| point.value);
            if points.last().is_some_and(|point| point.bytes < from) {
                points.push(Point::new(from, before));
            }
            points.push(Point::new(to, missing(hits)));
        }
        points.dedup_by_key(|point| point.bytes);
        Curve::descending(points)
    }

    fn watch(&mut self, hash: u64, bytes: u64) {
        let weight = 1.0 / self.rate();
        if self.touches.is_full() {
            self.renumber();
        }
        match self.watched.get(&hash).copied() {
            Some(last) => {
                let others = float(self.touches.after(last.place)) * weight;
                self.distances.add(others + float(bytes), weight);
                self.touches.remove(last.place, last.bytes);
            }
            None => self.first += weight,
        }
        let place = self.touches.push(bytes);
        self.watched.insert(hash, SampledPage { place, bytes });
        if self.watched.len() > self.samples_max {
            self.raise_the_bar();
        }
    }

    /// Drops the page with the largest hash and lowers the threshold to that hash.
    fn raise_the_bar(&mut self) {
        if let Some((hash, last)) = self.watched.pop_last() {
            self.touches.remove(last.place, last.bytes);
            self.threshold = hash;
        }
    }

    /// Closes the gaps in the order of touches.
    fn renumber(&mut self) {
        let mut order: Vec<(usize, u64)> =
            self.watched.iter().map(|(hash, last)| (last.place, *hash)).collect();
        order.sort_unstable();
        self.touches.clear();
        for (_, hash) in order {
            if let Some(last) = self.watched.get_mut(&hash) {
                last.place = self.touches.push(last.bytes);
            }
        }
    }

    /// Returns the number of pages sampled now.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.watched.len()
    }

    /// Returns an estimate of the bytes of all pages touched and still sampled.
    #[must_use]
    pub fn footprint_bytes(&self) -> f64 {
        let watched: f64 = self.watched.values().map(|last| float(last.bytes)).sum();
        debug_assert!(float_len(self.watched.len()) <= float_len(self.samples_max));
        watched / self.rate()
    }
}

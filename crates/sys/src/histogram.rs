//! Compact histograms of latencies.
//!
//! A bucket is a 32nd of a power of two, so a quantile is off by 1.6 % at most. One thread records
//! while another reads: the counts are atomics that only one thread writes, so that recording needs
//! no locked instruction (about 2 ns).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::size::to_usize;

/// Binary logarithm of the number of buckets per power of two.
const PART_BITS: u32 = 5;
/// Binary logarithm of the maximum time in ns, 18 minutes; longer times share the last bucket.
const TIME_BITS_MAX: u32 = 40;
const BUCKETS: usize = ((TIME_BITS_MAX - PART_BITS + 1) << PART_BITS) as usize;

/// Histogram that one thread records to while others read.
#[derive(Debug)]
pub struct Recorder {
    buckets: Box<[AtomicU64]>,
    /// Longest latency since [`Recorder::add_to`] was last called.
    longest_ns: AtomicU64,
}

/// Histogram of latencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    longest_ns: u64,
}

/// Quantiles of the latencies of operations, in nanoseconds; all zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum, exact.
    pub max_ns: u64,
}

/// Returns the bucket of a time.
fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << TIME_BITS_MAX) - 1);
    let bits = 64 - ns.leading_zeros();
    let shift = bits.saturating_sub(PART_BITS + 1);
    to_usize((u64::from(shift) << PART_BITS) + (ns >> shift))
}

/// Returns the middle of a bucket's range of times, in nanoseconds.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> PART_BITS).saturating_sub(1);
    let first = (bucket - (shift << PART_BITS)) << shift;
    first + (1 << shift) / 2
}

impl Recorder {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, longest_ns: AtomicU64::new(0) }
    }

    /// Records a latency. Only one thread may record, or counts are lost.
    #[inline]
    pub fn record(&self, ns: u64) {
        let count = &self.buckets[bucket(ns)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// Adds the counts so far to a histogram, and the longest latency since the last call.
    pub fn add_to(&self, histogram: &mut Histogram) {
        for (sum, count) in histogram.buckets.iter_mut().zip(&self.buckets) {
            *sum += count.load(Ordering::Relaxed);
        }
        let longest = self.longest_ns.swap(0, Ordering::Relaxed);
        histogram.longest_ns = histogram.longest_ns.max(longest);
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), longest_ns: 0 }
    }

    /// Returns the number of recorded latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the latencies recorded since `earlier`, a histogram of the same recorders. The
    /// longest latency is that of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        let buckets = pairs.map(|(now, then)| now - then).collect();
        Histogram { buckets, longest_ns: self.longest_ns }
    }

    /// Raises the longest latency to that of another histogram, if that is longer.
    pub fn stretch(&mut self, other: &Histogram) {
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the quantile `part` (0 to 1) in nanoseconds; 0 if the histogram is empty.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let count = self.count();
        // Counts are far below 2^53, and `part` is not negative.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = ((count as f64 * part).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, |bucket| middle(bucket).min(self.longest_ns))
    }

    /// Returns the median, the 95th and 99th percentiles, and the maximum.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            p50_ns: self.quantile(0.5),
            p95_ns: self.quantile(0.95),
            p99_ns: self.quantile(0.99),
            max_ns: self.longest_ns,
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        let mut last = 0;
        for ns in 0..200_000 {
            let bucket = bucket(ns);
            assert!(bucket == last || bucket == last + 1, "{ns}: {bucket} after {last}");
            last = bucket;
            assert!(middle(bucket).abs_diff(ns) <= ns / 60, "{ns}: {}", middle(bucket));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_sorted_values() {
        let (recorder, mut state) = (Recorder::new(), 4_u64);
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut values: Vec<u64> = (0..50_000)
            .map(|_| {
                let size = 1 << random(30);
                size + random(size)
            })
            .collect();
        values.iter().for_each(|ns| recorder.record(*ns));
        values.sort_unstable();
        let mut histogram = Histogram::new();
        recorder.add_to(&mut histogram);
        assert_eq!(histogram.count(), 50_000);
        for percent in [1, 10, 50, 90, 95, 99] {
            let exact = values[percent * 500 - 1];
            let told = histogram.quantile(percent as f64 / 100.0);
            assert!(told.abs_diff(exact) <= exact / 60, "{percent}: {told}, exactly {exact}");
        }
        assert_eq!(histogram.quantiles().max_ns, values[49_999]);
    }

    #[test]
    fn differences_have_what_came_between() {
        let recorder = Recorder::new();
        let mut first = Histogram::new();
        recorder.record(1_000_000);
        recorder.add_to(&mut first);
        let mut second = Histogram::new();
        (0..10).for_each(|_| recorder.record(10));
        recorder.add_to(&mut second);
        let between = second.since(&first);
        assert_eq!(between.count(), 10);
        let ten = Quantiles { p50_ns: 10, p95_ns: 10, p99_ns: 10, max_ns: 10 };
        assert_eq!(between.quantiles(), ten);
        assert_eq!(Histogram::new().quantiles(), Quantiles::default());
    }
}

//! Miss-ratio sampling from many threads.

use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use terrace_sys::split_mix;
use terrace_sys::sync::lock;

use super::{polyline::Curve, shards::Shards};
use crate::number::float;

/// [`Shards`] that many threads may touch concurrently.
///
/// # Cost
/// An unsampled page costs a hash, a comparison and three additions to counters, and no lock.
#[derive(Debug)]
pub struct Sampler {
    threshold: AtomicU64,
    /// Touches of unsampled pages since the last transfer to `shards`.
    passed: AtomicU64,
    touches: AtomicU64,
    bytes: AtomicU64,
    shards: Mutex<Shards>,
}

/// Statistics of a sampler; past touches count less after each [`Sampler::age`].
#[derive(Clone, Debug)]
pub struct Touched {
    /// Number of touches, aged.
    pub touches: f64,
    /// Mean bytes per touch, over all touches ever.
    pub mean_bytes: f64,
    /// Estimated bytes of all pages touched and still sampled.
    pub footprint_bytes: f64,
    /// Ratio of touches that miss as a function of the bytes of a cache; first touches are
    /// excluded.
    pub miss_ratio: Curve,
}

impl Sampler {
    /// Returns a sampler of at most `samples_max` pages.
    #[must_use]
    pub fn new(samples_max: usize) -> Self {
        let shards = Shards::new(samples_max);
        Self {
            threshold: AtomicU64::new(shards.threshold()),
            passed: AtomicU64::new(0),
            touches: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            shards: Mutex::new(shards),
        }
    }

    /// Records one touch of a page of `bytes` bytes.
    pub fn touch(&self, page: u64, bytes: u64) {
        self.touches.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if split_mix::hash(page) >= self.threshold.load(Ordering::Relaxed) {
            self.passed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut shards = self.lock();
        shards.touch(page, bytes);
        self.threshold.store(shards.threshold(), Ordering::Relaxed);
    }

    /// Multiplies the weight of everything seen so far by `factor`.
    pub fn age(&self, factor: f64) {
        self.settled().age(factor);
    }

    /// Returns the number of touches ever.
    #[must_use]
    pub fn touches(&self) -> u64 {
        self.touches.load(Ordering::Relaxed)
    }

    /// Returns the current statistics.
    #[must_use]
    pub fn touched(&self) -> Touched {
        let shards = self.settled();
        let touches = float(self.touches.load(Ordering::Relaxed)).max(1.0);
        Touched {
            touches: shards.counted(),
            mean_bytes: float(self.bytes.load(Ordering::Relaxed)) / touches,
            footprint_bytes: shards.footprint_bytes(),
            miss_ratio: shards.reuse_miss_ratio(),
        }
    }

    /// Locks the samples and transfers the touches of unsampled pages to them.
    fn settled(&self) -> MutexGuard<'_, Shards> {
        let mut shards = self.lock();
        shards.pass(self.passed.swap(0, Ordering::Relaxed));
        shards
    }

    fn lock(&self) -> MutexGuard<'_, Shards> {
        lock(&self.shards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_every_touch_and_find_the_loop() {
        let sampler = Sampler::new(256);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let sampler = &sampler;
                scope.spawn(move || {
                    for turn in 0..40_000 {
                        sampler.touch(thread * 500 + turn % 500, 4096);
                    }
                });
            }
        });
        let touched = sampler.touched();
        assert_eq!(sampler.touches(), 160_000);
        assert!((touched.touches - 160_000.0).abs() < 1.0, "{}", touched.touches);
        assert!((touched.mean_bytes - 4096.0).abs() < 1e-9);
        let all = 4096.0 * 2000.0;
        assert!((touched.footprint_bytes / all - 1.0).abs() < 0.3, "{}", touched.footprint_bytes);
        assert!(touched.miss_ratio.at(16 << 20) < 0.05, "all of it fits");
        sampler.age(0.5);
        assert!((sampler.touched().touches - 80_000.0).abs() < 1.0);
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "the measured figure, with --nocapture")]
    fn a_touch_is_cheap() {
        let sampler = Sampler::new(1024);
        let pages = 1 << 20_u64;
        let began = std::time::Instant::now();
        (0..2 * pages).for_each(|turn| sampler.touch(turn % pages, 1 << 20));
        let nanos = began.elapsed().as_nanos() / u128::from(2 * pages);
        println!("{nanos} ns a touch");
        assert!(nanos < 2000, "{nanos} ns");
    }
}

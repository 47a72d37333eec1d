//! Sampled miss-ratio curves compared with exact LRU stack distances.
#![allow(clippy::print_stdout, reason = "the figures are what the tests are for")]

use terrace_market::{Curve, Shards};

const PAGE: u64 = 4096;
const PAGES: u64 = if cfg!(miri) { 64 } else { 3000 };
const TOUCHES: usize = if cfg!(miri) { 500 } else { 60_000 };

/// Small generator, so that every run is the same.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % below
    }

    /// Returns small numbers more often than large ones: the smallest of three.
    fn skewed(&mut self, below: u64) -> u64 {
        (0..3).map(|_| self.next(below)).min().expect("three")
    }
}

/// Returns, for each touch, the bytes of the pages touched since the last touch of the same page,
/// itself included, or `None` at first touches. This is Mattson's algorithm: a list with the most
/// recent page in front.
fn distances(touches: &[(u64, u64)]) -> Vec<Option<u64>> {
    let mut stack: Vec<(u64, u64)> = Vec::new();
    let distance = |&(page, bytes): &(u64, u64)| {
        let at = stack.iter().rposition(|other| other.0 == page);
        let distance = at.map(|at| stack[at..].iter().map(|other| other.1).sum());
        if let Some(at) = at {
            stack.remove(at);
        }
        stack.push((page, bytes));
        distance
    };
    touches.iter().map(distance).collect()
}

fn exact_miss_ratio(distances: &[Option<u64>], cache: u64) -> f64 {
    let misses = distances.iter().filter(|it| it.is_none_or(|bytes| bytes > cache)).count();
    misses as f64 / distances.len() as f64
}

fn sampled(touches: &[(u64, u64)], samples: usize) -> (Curve, Shards) {
    let mut shards = Shards::new(samples);
    touches.iter().for_each(|&(page, bytes)| shards.touch(page, bytes));
    (shards.miss_ratio(), shards)
}

/// Returns the mean absolute error at 100 cache sizes.
fn mean_error(touches: &[(u64, u64)], samples: usize) -> f64 {
    let distances = distances(touches);
    let (curve, shards) = sampled(touches, samples);
    assert!(shards.samples() <= samples.max(16));
    let sizes = (1..=100).map(|part| PAGES * PAGE * part / 80);
    sizes.map(|size| (curve.at(size) - exact_miss_ratio(&distances, size)).abs()).sum::<f64>()
        / 100.0
}

fn skewed() -> Vec<(u64, u64)> {
    let mut random = Sequence(7);
    (0..TOUCHES).map(|_| (random.skewed(PAGES), PAGE)).collect()
}

fn looping() -> Vec<(u64, u64)> {
    (0..TOUCHES as u64).map(|at| (at % (PAGES / 2), PAGE)).collect()
}

fn mixed() -> Vec<(u64, u64)> {
    let mut random = Sequence(3);
    let one = |at: u64| match at % 3 {
        0 => (PAGES + at / 3 % (PAGES / 3), 4 * PAGE),
        _ => (random.skewed(PAGES), PAGE),
    };
    (0..TOUCHES as u64).map(one).collect()
}

#[test]
fn with_every_page_watched_the_curve_is_exact() {
    for (name, touches) in [("skewed", skewed()), ("looping", looping()), ("mixed", mixed())] {
        let error = mean_error(&touches, 100_000);
        println!("{name}: mean error {error:.4} with all pages");
        // The remaining error is the width of a histogram bucket, 3 %, at a cliff.
        assert!(error < 0.012, "{name}: {error}");
    }
}

#[test]
fn a_sample_is_close() {
    for (name, touches) in [("skewed", skewed()), ("looping", looping()), ("mixed", mixed())] {
        for (samples, allowed) in [(1024, 0.02), (256, 0.05)] {
            let error = mean_error(&touches, samples);
            println!("{name}: mean error {error:.4} with {samples} samples");
            assert!(error < allowed, "{name}, {samples} samples: {error}");
        }
    }
}

#[test]
fn a_loop_is_a_cliff() {
    let (curve, shards) = sampled(&looping(), 256);
    let loop_bytes = PAGES / 2 * PAGE;
    assert!(curve.at(loop_bytes * 3 / 4) > 0.95);
    assert!(curve.at(loop_bytes * 5 / 4) < 0.2);
    let reused = shards.reuse_miss_ratio();
    assert!(reused.at(loop_bytes * 5 / 4) < 0.01, "without first touches nothing misses");
}

#[test]
fn what_is_old_counts_less() {
    let mut shards = Shards::new(4096);
    looping().iter().for_each(|&(page, bytes)| shards.touch(page, bytes));
    for at in 0..TOUCHES as u64 {
        if at % 100 == 0 {
            shards.age(0.9);
        }
        shards.touch(10 * PAGES + at % 20, PAGE);
    }
    assert!(shards.miss_ratio().at(22 * PAGE) < 0.05, "twenty pages are all that is in use");
    assert!(shards.counted() < 1100.0);
}

#[test]
fn nothing_touched_is_nothing_known() {
    let shards = Shards::new(0);
    assert_eq!(shards.miss_ratio(), Curve::flat(1.0));
    assert_eq!((shards.rate(), shards.samples(), shards.footprint_bytes()), (1.0, 0, 0.0));
    let mut once = Shards::new(16);
    once.touch(5, PAGE);
    assert_eq!(once.miss_ratio().at(u64::MAX), 1.0);
}

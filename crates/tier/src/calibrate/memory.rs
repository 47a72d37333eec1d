//! Latency and bandwidth of memory.

use std::hint::black_box;
use std::io;
use std::thread;

use serde::Serialize;
use terrace_sys::pages::Pages;
use terrace_sys::size::{to_u64, to_usize};

use super::effort::Effort;
use crate::memory::MemoryTier;
use crate::timing::{gib_per_s, median, seconds, us_each};

/// Size of a cache line in bytes and in words.
const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / size_of::<u64>();
const ROUNDS: usize = 3;
const CHASE_STEPS: usize = 100_000;

/// Measured performance of a memory tier.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct MemoryFigures {
    /// Latency in nanoseconds of a dependent random load in huge pages, plus the delay of an
    /// emulated tier.
    pub latency_ns: f64,
    /// Sequential read bandwidth of one thread in GiB/s.
    pub read_gib_per_s: f64,
    /// Sequential read bandwidth of all processors together in GiB/s.
    pub read_all_gib_per_s: f64,
    /// Copy bandwidth of one thread in GiB/s, each byte counted once.
    pub copy_gib_per_s: f64,
}

/// Measures the memory in which frames of this tier would be allocated.
///
/// # Errors
/// Returns an error if the memory cannot be reserved or bound to the tier's node.
#[expect(clippy::cast_precision_loss, reason = "a delay is below a millisecond")]
pub fn memory(tier: &MemoryTier, effort: &Effort) -> io::Result<MemoryFigures> {
    let mut pages = Pages::reserve(to_usize(effort.memory_bytes), tier.node, true)?;
    link(pages.words_mut());
    let latency_ns = tier.latency_ns as f64 + latency_ns(pages.words());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let read = |threads| {
        let round = |_| gib_per_s(effort.memory_bytes, seconds(|| sum(pages.words(), threads)));
        median((0..ROUNDS).map(round).collect())
    };
    let (read_gib_per_s, read_all_gib_per_s) = (read(1), read(threads));
    Ok(MemoryFigures {
        latency_ns,
        read_gib_per_s,
        read_all_gib_per_s,
        copy_gib_per_s: copy_gib_per_s(pages.bytes_mut()),
    })
}

/// Links all cache lines into one cycle in random order: the first word of each holds the index of
/// the next (Sattolo, An algorithm to generate a random cyclic permutation, IPL 22, 1986).
fn link(words: &mut [u64]) {
    let count = u32::try_from(words.len() / LINE_WORDS).unwrap_or(u32::MAX);
    let mut order: Vec<u32> = (0..count).collect();
    let mut state = 1u64;
    for last in (1..order.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap_or(0) % last;
        order.swap(last, other);
    }
    for (line, next) in words.chunks_mut(LINE_WORDS).zip(order) {
        line[0] = u64::from(next);
    }
}

fn latency_ns(words: &[u64]) -> f64 {
    let mut line = 0;
    let mut chase = || {
        for _ in 0..CHASE_STEPS {
            line = usize::try_from(words[line * LINE_WORDS]).unwrap_or(0);
        }
        black_box(line);
    };
    let rounds = (0..ROUNDS).map(|_| us_each(CHASE_STEPS, seconds(&mut chase)) * 1e3);
    median(rounds.collect())
}

fn sum(words: &[u64], threads: usize) {
    let add = |part: &[u64]| {
        black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
    };
    if threads == 1 {
        return add(words);
    }
    thread::scope(|scope| {
        for part in words.chunks(words.len().div_ceil(threads)) {
            scope.spawn(move || add(part));
        }
    });
}

fn copy_gib_per_s(bytes: &mut [u8]) -> f64 {
    let half = bytes.len() / 2;
    let (from, to) = bytes.split_at_mut(half);
    let mut copy = || to[..half].copy_from_slice(from);
    let bytes = to_u64(half);
    median((0..ROUNDS).map(|_| gib_per_s(bytes, seconds(&mut copy))).collect())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_chase_visits_every_line_once() {
        let mut words = vec![0u64; 1000 * LINE_WORDS];
        link(&mut words);
        let mut line = 0;
        for step in 1..=1000 {
            line = usize::try_from(words[line * LINE_WORDS]).expect("small");
            assert_eq!(line == 0, step == 1000, "step {step}");
        }
    }

    #[test]
    fn figures_are_positive_and_contain_the_delay() {
        let tier = MemoryTier::emulated(1 << 30, 5_000);
        let figures = memory(&tier, &Effort::brief()).expect("memory");
        assert!(figures.latency_ns > 5_000.0);
        assert!(figures.read_gib_per_s > 0.0 && figures.read_all_gib_per_s > 0.0);
        assert!(figures.copy_gib_per_s > 0.0);
        let missing = MemoryTier { node: Some(1 << 20), ..tier };
        assert!(memory(&missing, &Effort::brief()).is_err());
    }
}

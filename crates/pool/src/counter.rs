//! Sharded counter, whose threads do not share a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

/// Sharded counter that many threads add to and subtract from, each in a shard on its own cache
/// line.
#[derive(Debug, Default)]
pub struct Counter([Shard; SHARDS]);

/// Returns the index of the calling thread's shard.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: Cell<usize> = const { Cell::new(usize::MAX) });
    if SHARD.get() == usize::MAX {
        SHARD.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    }
    SHARD.get()
}

impl Counter {
    /// Adds to the calling thread's shard.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0[shard()].0.fetch_add(n, Ordering::Relaxed);
    }

    /// Subtracts `n`, which any thread may have added. A shard may wrap below zero; the sum does
    /// not.
    #[inline]
    pub fn take(&self, n: u64) {
        self.0[shard()].0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Returns the sum, never below zero: a concurrent read may miss an addition to one shard and
    /// see the subtraction from another.
    #[must_use]
    pub fn get(&self) -> u64 {
        let shards = self.0.iter().map(|shard| shard.0.load(Ordering::Relaxed));
        let sum = shards.fold(0_u64, u64::wrapping_add);
        if sum > u64::MAX / 2 { 0 } else { sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_add_up() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..SHARDS + 3 {
                scope.spawn(|| (0..100).for_each(|_| counter.add(2)));
            }
        });
        assert_eq!(counter.get(), (SHARDS as u64 + 3) * 200);
    }

    #[test]
    fn what_one_thread_adds_another_may_take() {
        let counter = Counter::default();
        counter.add(5);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| counter.take(1));
            }
        });
        assert_eq!(counter.get(), 2);
    }
}

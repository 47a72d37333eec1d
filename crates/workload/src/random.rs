//! Seeded pseudo-random numbers.

use terrace_sys::split_mix::{self, INCREMENT, mix};

/// Pseudo-random number generator ([`split_mix`]): one addition and two multiplications per number,
/// and every state is a good one.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of one stream of a seed. The streams of a seed are independent of each
    /// other.
    #[must_use]
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream.wrapping_add(INCREMENT))))
    }

    /// Returns 64 random bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        split_mix::next(&mut self.0)
    }

    /// Returns a number below `limit`; 0 for a limit of 0. The bias of `limit` / 2^64 is too small
    /// to be measured.
    #[inline]
    pub const fn below(&mut self, limit: u64) -> u64 {
        // The result is the high half of the product.
        ((self.next() as u128 * limit as u128) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, inclusive.
    ///
    /// # Panics
    /// In debug builds, when `high` is less than `low`.
    #[inline]
    pub const fn between(&mut self, low: u32, high: u32) -> u32 {
        debug_assert!(low <= high);
        // At most `high - low`, which has 32 bits.
        #[expect(clippy::cast_possible_truncation)]
        let above = self.below((high - low) as u64 + 1) as u32;
        low + above
    }

    /// Returns true with a probability of `percent` / 100.
    #[inline]
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a number from 0 to 1, excluding 1.
    #[inline]
    pub const fn fraction(&mut self) -> f64 {
        // A double has a precision of 53 bits.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Fills a slice with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Shuffles a slice into a random order.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = self.below(last as u64 + 1);
            things.swap(last, terrace_sys::size::to_usize(other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_range_and_even() {
        let mut random = Random::new(1, 2);
        let mut counts = [0_u32; 16];
        for _ in 0..160_000 {
            counts[random.between(5, 20) as usize - 5] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let hits = (0..100_000).filter(|_| random.chance(15)).count();
        assert!((14_500..15_500).contains(&hits), "{hits}");
        let mean = (0..100_000).map(|_| random.fraction()).sum::<f64>() / 1e5;
        assert!((0.495..0.505).contains(&mean), "{mean}");
    }

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let numbers = |stream| -> Vec<u64> {
            let mut random = Random::new(7, stream);
            (0..20).map(|_| random.next()).collect()
        };
        assert_eq!(numbers(1), numbers(1));
        assert!(numbers(1).iter().all(|number| !numbers(2).contains(number)));
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut things: Vec<u32> = (0..1000).collect();
        Random::new(3, 0).shuffle(&mut things);
        let still = things.iter().enumerate().filter(|(at, thing)| *at == **thing as usize);
        assert!(still.count() < 10);
        things.sort_unstable();
        assert!(things.into_iter().eq(0..1000));
    }
}

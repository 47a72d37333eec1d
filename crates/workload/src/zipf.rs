//! Zipf's distribution.
//!
//! The k-th most frequent of n items is drawn with a probability proportional to `1 / k^theta`.
//! Draws use rejection-inversion (Hoermann and Derflinger, ACM TOMACS 1996): it inverts the
//! integral of the density, which has a closed form, and rejects the excess of the integral over
//! the sum. The distribution is exact, the cost of a draw does not depend on n, and no sum is
//! precomputed: YCSB's generator (Gray et al., SIGMOD 1994) needs the sum of n terms beforehand,
//! and approximates. [`ZipfTable`] is the same distribution by those sums, for traces that take one
//! random number for each draw.

use terrace_sys::size::to_u64;

/// Zipf's distribution over ranks, of which 0 is the most frequent.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: f64,
    theta: f64,
    /// Integral at 1.5, minus the share of rank 1.
    low: f64,
    /// Integral at n + 0.5.
    high: f64,
    /// Largest distance of a draw below its rounded rank at which the draw is accepted without
    /// evaluating the integral.
    sure: f64,
}

impl Zipf {
    /// Creates the distribution over `count` items, at least one.
    ///
    /// # Panics
    /// In debug builds, unless `theta` is above 0.
    #[must_use]
    pub fn new(count: u64, theta: f64) -> Self {
        debug_assert!(theta > 0.0);
        let count = count.max(1) as f64;
        let low = integral(1.5, theta) - 1.0;
        let high = integral(count + 0.5, theta);
        let sure = 2.0 - inverse(integral(2.5, theta) - density(2.0, theta), theta);
        Self { count, theta, low, high, sure }
    }

    /// Draws a rank below the count. `fraction` returns random numbers from 0 to 1.
    #[inline]
    pub fn draw(&self, mut fraction: impl FnMut() -> f64) -> u64 {
        loop {
            let area = self.high + fraction() * (self.low - self.high);
            let exact = inverse(area, self.theta);
            let rank = (exact + 0.5).floor().clamp(1.0, self.count);
            let accepted = rank - exact <= self.sure
                || area >= integral(rank + 0.5, self.theta) - density(rank, self.theta);
            if accepted {
                // The rank is from 1 to the count, which was an integer.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let rank = rank as u64 - 1;
                return rank;
            }
        }
    }
}

/// Zipf's distribution over ranks by a table of cumulative weights, 8 bytes for each rank. A draw
/// takes one random number, whatever the rank, and a binary search: the sequence of a seed is that
/// of the traces whose results are published.
#[derive(Clone, Debug)]
pub struct ZipfTable {
    /// Sums of the weights of each rank and those before it.
    sums: Vec<f64>,
}

impl ZipfTable {
    /// Creates the distribution over `count` items.
    #[must_use]
    pub fn new(count: u64, theta: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += (rank as f64).powf(-theta);
            sum
        });
        Self { sums: sums.collect() }
    }

    /// Returns the rank, below the count, at a fraction of all weight, from 0 to 1, excluding 1.
    #[must_use]
    pub fn draw(&self, fraction: f64) -> u64 {
        let at = fraction * self.sums.last().copied().unwrap_or(0.0);
        let rank = self.sums.partition_point(|sum| *sum <= at);
        // The product may round up to all of the weight.
        to_u64(rank.min(self.sums.len().saturating_sub(1)))
    }
}

/// Density of the distribution: `x^-theta`.
fn density(x: f64, theta: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// Integral of the density from 1 to x: `(x^(1-theta) - 1) / (1 - theta)`, in a form without
/// cancellation for theta close to 1.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    log * exp_part((1.0 - theta) * log)
}

/// Inverse of the integral: the x at which it equals `area`.
fn inverse(area: f64, theta: f64) -> f64 {
    let part = (area * (1.0 - theta)).max(-1.0);
    (area * log_part(part)).exp()
}

/// Computes `(e^x - 1) / x`, accurate also close to 0.
fn exp_part(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// Computes `ln(1 + x) / x`, accurate also close to 0.
fn log_part(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

/// A permutation of the numbers below a count, which scatters neighbours.
///
/// YCSB scatters ranks by a hash modulo the number of records, which maps several ranks to one
/// record and none to others; a permutation preserves the distribution.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    count: u64,
    mask: u64,
    shift: u32,
}

impl Scatter {
    /// Creates the permutation of the numbers below `count`.
    #[must_use]
    pub fn new(count: u64) -> Self {
        let bits = (64 - count.saturating_sub(1).leading_zeros()).max(2);
        let mask = u64::MAX >> (64 - bits);
        Self { count, mask, shift: bits.div_ceil(2) }
    }

    /// Returns the image of a number below the count. The permutation is one of a power of two: an
    /// image beyond the count is permuted again until it is below (cycle walking), two rounds on
    /// average at most.
    #[inline]
    #[must_use]
    pub fn place(&self, number: u64) -> u64 {
        debug_assert!(number < self.count);
        let mut word = number;
        loop {
            for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
                word = word.wrapping_add(0x9e37_79b9).wrapping_mul(factor) & self.mask;
                word ^= word >> self.shift;
            }
            if word < self.count {
                return word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Compares the frequencies of the first ranks, and of the rest, with the exact distribution:
    /// none is off by more than 5 standard deviations.
    fn compare(count: u64, theta: f64, draw: impl Fn(&mut Random) -> u64) {
        const DRAWS: u64 = 100_000;
        let mut random = Random::new(count, 1);
        let mut counts = vec![0_u64; usize::try_from(count).expect("fits")];
        for _ in 0..DRAWS {
            counts[usize::try_from(draw(&mut random)).expect("fits")] += 1;
        }
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-theta);
        let sum: f64 = (0..counts.len()).map(weight).sum();
        let check = |from: usize, to: usize| {
            let part = (from..to).map(weight).sum::<f64>() / sum;
            let drawn = counts[from..to].iter().sum::<u64>() as f64;
            let expected = part * DRAWS as f64;
            let deviation = (expected * (1.0 - part)).sqrt();
            let off = (drawn - expected).abs();
            assert!(off <= 5.0 * deviation + 1.0, "{count} {theta} {from}..{to}: off by {off}");
        };
        let bounds = (0..12).chain([20, 50, 100, 1_000, 10_000, 100_000]);
        let mut bounds: Vec<usize> = bounds.filter(|bound| *bound < counts.len()).collect();
        bounds.push(counts.len());
        bounds.windows(2).for_each(|pair| check(pair[0], pair[1]));
    }

    #[test]
    fn frequencies_are_those_of_the_distribution() {
        for theta in [0.5, 0.99, 1.0, 1.3] {
            for count in [1, 2, 10, 1_000, 100_000] {
                let zipf = Zipf::new(count, theta);
                compare(count, theta, |random| zipf.draw(|| random.fraction()));
                let table = ZipfTable::new(count, theta);
                compare(count, theta, |random| table.draw(random.fraction()));
            }
        }
    }

    /// Ranks 1, 2 and 3 have weights of 6, 3 and 2 elevenths.
    #[test]
    fn a_table_has_one_rank_for_each_fraction() {
        let table = ZipfTable::new(3, 1.0);
        let ranks = [0.0, 0.54, 0.55, 0.81, 0.82, 0.999].map(|fraction| table.draw(fraction));
        assert_eq!(ranks, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_billion_things_take_no_longer() {
        let (zipf, mut random) = (Zipf::new(1_000_000_000, 0.99), Random::new(5, 0));
        let draws: Vec<u64> = (0..200_000).map(|_| zipf.draw(|| random.fraction())).collect();
        assert!(draws.iter().all(|rank| *rank < 1_000_000_000));
        // The sum of n terms by the Euler-Maclaurin formula: the integral, the mean of both ends,
        // and the first correction.
        let n = 1e9_f64;
        let sum = (n.powf(0.01) - 1.0) / 0.01 + (1.0 + n.powf(-0.99)) / 2.0 + 0.99 / 12.0;
        let first = draws.iter().filter(|rank| **rank == 0).count() as f64;
        let expected = 200_000.0 / sum;
        assert!((first - expected).abs() < 5.0 * expected.sqrt(), "{first}, not {expected}");
        let upper = draws.iter().filter(|rank| **rank >= 500_000_000).count() as f64;
        let part = (n.powf(0.01) - (n / 2.0).powf(0.01)) / 0.01 / sum;
        let expected = 200_000.0 * part;
        assert!((upper - expected).abs() < 5.0 * expected.sqrt(), "{upper}, not {expected}");
    }

    #[test]
    fn every_number_has_one_place() {
        for count in [1, 2, 3, 5, 64, 1_000, 4_097] {
            let scatter = Scatter::new(count);
            let mut places: Vec<u64> = (0..count).map(|number| scatter.place(number)).collect();
            let apart = places.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > count / 20);
            assert!(count < 1_000 || apart.count() as u64 > count * 8 / 10, "{count}");
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count), "{count}");
        }
    }
}

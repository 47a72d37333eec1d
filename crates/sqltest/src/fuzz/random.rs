//! Pseudo-random numbers that are the same for one seed on every machine.

/// SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// True if floats may be NaN, infinite or negative zero.
    pub special: bool,
}

impl Random {
    /// Creates the generator of a seed and a position in the seed's run.
    #[must_use]
    pub fn new(seed: u64, position: u64) -> Self {
        let state = seed ^ position.wrapping_mul(0xd134_2543_de82_ef95);
        let mut random = Self { state, special: true };
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end.max(1)).unwrap_or(0)
    }

    /// Returns a number from `from` to `to`, both included.
    pub fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// Returns a number from `from` to `to`, both included.
    pub fn number(&mut self, from: i64, to: i64) -> i64 {
        let width = to.abs_diff(from).saturating_add(1);
        from.wrapping_add_unsigned(self.next() % width.max(1))
    }

    /// True with a probability of `share` in 100.
    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// Returns one of the elements.
    ///
    /// # Panics
    /// If the slice is empty.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Returns the indexes of `count` out of `of` elements, in ascending order.
    pub fn some(&mut self, count: usize, of: usize) -> Vec<usize> {
        let mut places: Vec<_> = (0..of).collect();
        while places.len() > count {
            places.remove(self.below(places.len()));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let numbers = |seed, position| {
            let mut random = Random::new(seed, position);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        let mut random = Random::new(7, 0);
        assert!((0..200).all(|_| (3..=5).contains(&random.between(3, 5))));
        assert!((0..200).all(|_| (-2..=2).contains(&random.number(-2, 2))));
        assert_eq!(random.some(2, 5).len(), 2);
    }
}

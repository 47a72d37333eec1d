//! Pseudo-random numbers, for access patterns, sizes and permutations.

/// Generator of pseudo-random numbers (xorshift, Marsaglia 2003); the same seed gives the same
/// numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(88_172_645_463_325_252 ^ (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Returns a number from 0 to below `count`, which must not be 0.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % count
    }
}

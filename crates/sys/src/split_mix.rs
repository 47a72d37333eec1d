//! SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014,
//! figure 16): a step of a pseudo-random sequence, and its finalizer as a hash.
//!
//! The generators of tests, workloads and simulations are built on it: the same seed gives the same
//! numbers in every version.

/// Increment of the state: 2^64 divided by the golden ratio.
pub const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Advances the state of a sequence and returns its next 64 bits. Every state is a good one.
#[inline]
pub const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(INCREMENT);
    mix(*state)
}

/// Mixes the bits of a number; a bijection that maps 0 to itself.
#[must_use]
#[inline]
pub const fn mix(number: u64) -> u64 {
    let word = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns a hash of a number, which differs for different numbers.
#[must_use]
#[inline]
pub const fn hash(number: u64) -> u64 {
    mix(number.wrapping_add(INCREMENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_reference() {
        // First numbers of the reference implementation (Vigna, splitmix64.c), state 1234567.
        let mut state = 1_234_567;
        let numbers: [u64; 5] = std::array::from_fn(|_| next(&mut state));
        let reference = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, reference);
    }

    #[test]
    fn a_hash_is_the_first_number_of_a_sequence() {
        for number in [0, 1, u64::MAX] {
            let mut state = number;
            assert_eq!(hash(number), next(&mut state));
        }
        assert_eq!(mix(0), 0);
    }
}

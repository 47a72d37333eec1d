//! Keys and values of the experiment, generated on the fly.

use terrace_sys::split_mix::hash;

/// Bytes of a key.
pub const KEY_BYTES: usize = 100;
/// Bytes of the shortest and of the longest value.
pub const VALUE_BYTES: (usize, usize) = (50, 100);

/// Stride of the look-up order: a prime, so that it visits each of any smaller number of pairs
/// once.
const STEP: u64 = 2_654_435_761;
/// Maximum number of pairs, below the stride [`STEP`], so that the stride is coprime to the number
/// of pairs.
pub const PAIRS_MAX: u64 = 1 << 31;

/// Buffer for one key and value.
#[derive(Clone, Debug)]
pub struct Pair {
    key: [u8; KEY_BYTES],
    value: [u8; VALUE_BYTES.1],
    len: usize,
}

impl Pair {
    /// Creates the pair of number 0.
    pub fn new() -> Pair {
        let mut pair = Pair { key: [0; KEY_BYTES], value: [0; VALUE_BYTES.1], len: 0 };
        pair.set(0);
        pair
    }

    /// Replaces the contents with the pair of a number. Keys of different numbers differ in their
    /// first 8 bytes.
    pub fn set(&mut self, number: u64) {
        self.set_key(number);
        let mut seed = hash(!number);
        let span = VALUE_BYTES.1 - VALUE_BYTES.0 + 1;
        self.len = VALUE_BYTES.0 + usize::try_from(seed % span as u64).unwrap_or(0);
        fill(&mut self.value, &mut seed);
    }

    /// Replaces the key by that of a number; the value and its length are unchanged.
    pub fn set_key(&mut self, number: u64) {
        let mut seed = hash(number);
        self.key[..8].copy_from_slice(&seed.to_le_bytes());
        fill(&mut self.key[8..], &mut seed);
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the value.
    pub fn value(&self) -> &[u8] {
        &self.value[..self.len]
    }
}

impl Default for Pair {
    fn default() -> Pair {
        Pair::new()
    }
}

/// Returns true if a value has the length and the first bytes of the value of pair `number`.
pub fn belongs(value: &[u8], number: u64) -> bool {
    let mut seed = hash(!number);
    let span = VALUE_BYTES.1 - VALUE_BYTES.0 + 1;
    let len = VALUE_BYTES.0 + usize::try_from(seed % span as u64).unwrap_or(0);
    let mut first = [0; 8];
    fill(&mut first, &mut seed);
    value.len() == len && value.starts_with(&first)
}

/// Returns the number of the pair that is looked up at position `place`.
pub fn shuffled(place: u64, pairs: u64) -> u64 {
    (place * STEP + pairs / 2) % pairs
}

/// Fills bytes with the pseudo-random words that follow a seed (xorshift64*).
fn fill(bytes: &mut [u8], seed: &mut u64) {
    *seed |= 1;
    for chunk in bytes.chunks_mut(8) {
        *seed ^= *seed >> 12;
        *seed ^= *seed << 25;
        *seed ^= *seed >> 27;
        let word = seed.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_differ_and_values_belong() {
        let mut keys = HashSet::new();
        let (mut pair, mut lengths) = (Pair::new(), HashSet::new());
        for number in 0..2_000 {
            pair.set(number);
            assert!(keys.insert(pair.key().to_vec()));
            assert!(belongs(pair.value(), number) && !belongs(pair.value(), number + 1));
            lengths.insert(pair.value().len());
        }
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&50), Some(&100)));
    }

    #[test]
    fn every_number_is_looked_up_once() {
        for pairs in [1, 2, 1000, 1024, 9_973] {
            let numbers: HashSet<u64> = (0..pairs).map(|place| shuffled(place, pairs)).collect();
            assert_eq!(numbers.len() as u64, pairs);
            assert!(numbers.into_iter().all(|number| number < pairs));
        }
    }
}

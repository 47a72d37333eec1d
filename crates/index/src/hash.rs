//! Hash of a key, which gives its bucket, its slot in a page, and its tag.

use std::hash::{BuildHasher, RandomState};

/// Odd constants without a pattern: the fractional parts of the square roots of the first four
/// primes, as in SHA-512, the first made odd.
const LANES: [u64; 4] = [
    0x6a09_e667_f3bc_c908 | 1,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
];

/// Number of bits of a tag.
pub(crate) const TAG_BITS: u32 = 11;
/// Lowest bit of the tag; those below it choose a slot.
const TAG_SHIFT: u32 = 21;

/// A keyed hash function: one multiplication per 16 bytes of the key, as in wyhash (Wang Yi, 2019).
///
/// The seed is random for each index, so that an attacker cannot prepare keys that collide in one
/// bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash {
    seed: u64,
}

/// The 64-bit hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(u64);

impl KeyHash {
    pub(crate) fn new() -> Self {
        Self { seed: RandomState::new().hash_one(LANES[0]) }
    }

    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the hash of a key.
    pub(crate) fn of(self, key: &[u8]) -> Hash {
        let (pairs, rest) = key.as_chunks::<16>();
        let mut state = fold(self.seed ^ LANES[0], key.len() as u64 ^ LANES[1]);
        for pair in pairs {
            state = mix(state, pair);
        }
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        state = mix(state, &last);
        Hash(fold(state ^ LANES[3], LANES[1]))
    }
}

fn mix(state: u64, pair: &[u8; 16]) -> u64 {
    let (low, high) = pair.split_at(8);
    let word = |half: &[u8]| half.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    fold(word(low) ^ LANES[2] ^ state, word(high) ^ LANES[3] ^ state.rotate_left(32))
}

/// Multiplies and XORs both halves of the product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is meant")]
    let low = product as u64;
    let high = (product >> 64) as u64;
    low ^ high
}

impl Hash {
    /// Returns the index of the bucket, by the upper half of the hash.
    pub(crate) fn bucket(self, buckets: usize) -> usize {
        let scaled = ((self.0 >> 32) * buckets as u64) >> 32;
        // Below `buckets`, which is a usize.
        usize::try_from(scaled).unwrap_or(0)
    }

    /// Returns the first slot to probe in a table of `slots`, a power of two, by the lowest bits.
    pub(crate) fn slot(self, slots: usize) -> usize {
        let mask = slots as u64 - 1;
        // At most `mask`, which came from a usize.
        usize::try_from(self.0 & mask).unwrap_or(0)
    }

    /// Returns the bits that tell keys of neighbouring slots apart without a comparison of keys.
    pub(crate) fn tag(self) -> u32 {
        let tag = (self.0 >> TAG_SHIFT) & ((1 << TAG_BITS) - 1);
        // Eleven bits.
        u32::try_from(tag).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let hash = KeyHash::seeded(1);
        let key = [0_u8; 40];
        let mut seen: Vec<u64> = (0..=40).map(|len| hash.of(&key[..len]).0).collect();
        for at in 0..40 {
            let mut other = key;
            other[at] = 1;
            seen.push(hash.of(&other).0);
        }
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all);
        assert_ne!(KeyHash::seeded(2).of(&key), hash.of(&key), "the seed counts");
    }

    #[test]
    fn counters_spread_over_buckets_slots_and_tags() {
        let hash = KeyHash::seeded(7);
        let mut counts = [[0_u32; 64]; 3];
        for number in 0..64_000_u64 {
            let hash = hash.of(&number.to_le_bytes());
            counts[0][hash.bucket(64)] += 1;
            counts[1][hash.slot(64)] += 1;
            counts[2][hash.tag() as usize % 64] += 1;
        }
        for count in counts.as_flattened() {
            assert!((800..1200).contains(count), "{counts:?}");
        }
    }
}

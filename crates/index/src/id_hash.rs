//! A hash function for page ids, which are small numbers that count up.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes page ids by one multiplication, so that the cost of hashing does not bias comparisons of
/// maps.
pub(crate) type IdHash = BuildHasherDefault<IdHasher>;

#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

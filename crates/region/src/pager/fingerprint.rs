//! Fingerprints of blocks, which tell if the bytes differ from those of the source.

/// Returns the fingerprint of a block's bytes. Two different blocks collide with probability
/// 2^-128, unless they were constructed to: XXH3 is not a cryptographic hash.
pub(super) fn fingerprint(bytes: &[u8]) -> u128 {
    twox_hash::XxHash3_128::oneshot(bytes)
}

/// Fingerprint of a whole block of zeros; `None` until it is computed.
#[derive(Debug, Default)]
pub(super) struct Zeros(Option<u128>);

impl Zeros {
    /// Returns the fingerprint of `len` zeros.
    pub(super) fn fingerprint(&mut self, len: usize, block_bytes: usize) -> u128 {
        let take = || fingerprint(&vec![0; len]);
        if len == block_bytes { *self.0.get_or_insert_with(take) } else { take() }
    }
}

//! The checksum of an extent.

/// Computes CRC-32C (Castagnoli, with processor instructions where available) over the extent's
/// position and then its bytes. Covering the position detects a misdirected write even if the bytes
/// themselves are intact.
#[must_use]
pub fn checksum(offset_bytes: u64, data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&offset_bytes.to_le_bytes()), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_and_bytes_both_count() {
        let data = [5u8; 4096];
        let mut flipped = data;
        flipped[4095] ^= 1;
        assert_eq!(checksum(0, &data), checksum(0, &data));
        assert_ne!(checksum(0, &data), checksum(4096, &data));
        assert_ne!(checksum(0, &data), checksum(0, &flipped));
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283, "the published check value");
    }
}

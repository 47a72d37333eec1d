//! Byte counts as numbers to reckon with, and back.

/// A count as a number; exact below 2^53, which is 8 PiB.
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

/// A count of things as a number.
pub(crate) const fn float_len(count: usize) -> f64 {
    count as f64
}

/// The whole count at or below a number: 0 of what is negative or no number, at most `u64::MAX`.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
#[expect(clippy::cast_sign_loss, reason = "the cast saturates, which is meant")]
pub(crate) const fn count(value: f64) -> u64 {
    value as u64
}

/// `bytes` times `part` over `whole`, rounded down; all of it when `whole` is zero.
pub(crate) fn portion(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return bytes;
    }
    let product = u128::from(bytes) * u128::from(part) / u128::from(whole);
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// A length as a count; lossless, because no length has more than 64 bits.
pub(crate) const fn len(length: usize) -> u64 {
    length as u64
}

/// A count as an index; what does not fit is beyond every index.
pub(crate) fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

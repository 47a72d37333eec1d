//! Conversions of counts, lengths and numbers.

pub(crate) use terrace_sys::number::{count, float};

/// Returns a length as a number.
pub(crate) const fn float_len(count: usize) -> f64 {
    count as f64
}

/// Returns `bytes` times `part` over `whole`, rounded down; all of `bytes` if `whole` is zero.
pub(crate) fn portion(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return bytes;
    }
    let product = u128::from(bytes) * u128::from(part) / u128::from(whole);
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// Returns a length as a count; lossless, because no length has more than 64 bits.
pub(crate) const fn len(length: usize) -> u64 {
    length as u64
}

/// Returns a count as an index; one that does not fit becomes `usize::MAX`, beyond every index.
pub(crate) fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

//! Conversions between counts and floating-point numbers.

/// Returns a count as a number; exact below 2^53, which is 8 PiB.
#[must_use]
#[inline]
pub const fn float(count: u64) -> f64 {
    count as f64
}

/// Returns the integer at or below a number: 0 if it is negative or NaN, at most `u64::MAX`.
#[must_use]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
#[expect(clippy::cast_sign_loss, reason = "the cast saturates, which is meant")]
pub const fn count(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_rounded_down_and_saturate() {
        assert_eq!([2.9, 0.0, -1.0, f64::NAN].map(count), [2, 0, 0, 0]);
        assert_eq!([f64::INFINITY, 1e300].map(count), [u64::MAX; 2]);
        assert_eq!(count(float(1 << 53)), 1 << 53);
    }
}

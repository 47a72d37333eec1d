//! Conversions between counts and floating-point numbers.

/// Converts a count to a float; exact below 2^53, which is 8 PiB.
pub(super) const fn float(count: u64) -> f64 {
    count as f64
}

/// Rounds a float down to a count: 0 for negative numbers and NaN, at most `u64::MAX`.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
#[expect(clippy::cast_sign_loss, reason = "the cast saturates, which is meant")]
pub(super) const fn count(value: f64) -> u64 {
    value as u64
}

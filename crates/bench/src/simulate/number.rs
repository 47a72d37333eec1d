//! Conversions between counts and floating-point numbers.

/// Returns a count as a number; exact below 2^53.
pub(super) const fn float(count: u64) -> f64 {
    count as f64
}

/// Returns the integer at or below a number: 0 if it is negative or NaN, at most `u64::MAX`.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
#[expect(clippy::cast_sign_loss, reason = "the cast saturates, which is meant")]
pub(super) const fn count(value: f64) -> u64 {
    value as u64
}

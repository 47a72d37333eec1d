//! Precedences of operators that the generic dialect lacks.

/// The precedence of `^`. No number is left between `*` (40) and `AT TIME ZONE` (41), so it shares
/// that of `AT TIME ZONE`, which PostgreSQL has one level above.
pub(super) const POWER: u8 = 41;
/// The precedence of `||`, between comparisons (20) and sums (30).
pub(super) const CONCATENATION: u8 = 25;

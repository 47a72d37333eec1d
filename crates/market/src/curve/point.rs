//! Points of curves.

/// One point of a curve: a memory size and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Memory in bytes.
    pub bytes: u64,
    /// Cost of the work with that much memory.
    pub value: f64,
}

impl Point {
    /// Returns a point.
    #[must_use]
    pub const fn new(bytes: u64, value: f64) -> Self {
        Self { bytes, value }
    }
}

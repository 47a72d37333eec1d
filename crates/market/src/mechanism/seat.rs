//! Working state of one consumer in one round.

use crate::Curve;

/// Bounds and grant of one consumer, and the value of the grant.
#[derive(Clone, Debug)]
pub(super) struct Seat<'a> {
    pub(super) id: u64,
    pub(super) curve: Option<&'a Curve>,
    /// Lower bound of the grant in bytes.
    pub(super) low: u64,
    /// Upper bound of the grant in bytes.
    pub(super) high: u64,
    /// Demand in bytes.
    pub(super) demand: u64,
    /// Endowment at the beginning of the round in bytes, within the bounds and the budget.
    pub(super) start: u64,
    /// Current grant in bytes.
    pub(super) grant: u64,
    /// Number of intervals over which penalties are summed, at least 1.
    pub(super) horizon: f64,
}

impl Seat<'_> {
    /// Returns the penalty with `bytes`, summed over the horizon.
    pub(super) fn penalty(&self, bytes: u64) -> f64 {
        self.curve.map_or(0.0, |curve| curve.at(bytes) * self.horizon)
    }

    /// Returns the sizes at which the curve has points, above `low` and up to `high`.
    pub(super) fn bends(&self, low: u64, high: u64) -> impl DoubleEndedIterator<Item = u64> {
        let points = self.curve.map_or(&[][..], Curve::points);
        let from = points.partition_point(|point| point.bytes <= low);
        let to = points.partition_point(|point| point.bytes <= high).max(from);
        points[from..to].iter().map(|point| point.bytes)
    }
}

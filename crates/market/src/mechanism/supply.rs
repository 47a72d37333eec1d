//! Supply: memory that can be given up, and the loss of giving it up.

use super::{interface::Terms, seat::Seat};
use crate::{Curve, number::float};

/// Bytes that are given up together, for one loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lot {
    /// Seat of the seller; `None` if the bytes are free.
    pub(super) seat: Option<usize>,
    pub(super) bytes: u64,
    /// Increase of the seller's penalty over the horizon, including the moving penalty.
    pub(super) loss: f64,
}

impl Lot {
    fn per_byte(&self) -> f64 {
        self.loss / float(self.bytes.max(1))
    }
}

/// Returns all memory that could be given up: `free` bytes first, then lots by rising loss per
/// byte.
///
/// The lots of one seller are the segments of the lower convex hull of its loss. Taking lots in
/// order therefore takes those of each seller in their order, and stops above its cliffs as long as
/// other lots are cheaper.
pub(super) fn lots(terms: &Terms, seats: &[Seat<'_>], free: u64) -> Vec<Lot> {
    let given = |(at, seat)| given_by(terms, at, seat);
    let mut lots: Vec<Lot> = seats.iter().enumerate().flat_map(given).collect();
    lots.sort_by(|a, b| a.per_byte().total_cmp(&b.per_byte()).then(a.seat.cmp(&b.seat)));
    if free > 0 {
        lots.insert(0, Lot { seat: None, bytes: free, loss: 0.0 });
    }
    lots
}

fn given_by(terms: &Terms, at: usize, seat: &Seat<'_>) -> Vec<Lot> {
    if seat.grant <= seat.low {
        return Vec::new();
    }
    let now = seat.penalty(seat.grant);
    let bends = seat.bends(seat.low, seat.grant - 1).rev();
    let losses = bends.chain([seat.low]).map(|bytes| {
        let given = seat.grant - bytes;
        (given, seat.penalty(bytes) - now + terms.moving(given))
    });
    let corners = hull(losses);
    corners
        .windows(2)
        .map(|pair| Lot {
            seat: Some(at),
            bytes: pair[1].0 - pair[0].0,
            loss: (pair[1].1 - pair[0].1).max(0.0),
        })
        .collect()
}

/// Returns the corners of the lower convex hull of `points`, which rise in their first component
/// and begin after (0, 0).
pub(super) fn hull(points: impl Iterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    let mut corners = vec![(0, 0.0)];
    let slope = |a: (u64, f64), b: (u64, f64)| (b.1 - a.1) / float((b.0 - a.0).max(1));
    for point in points {
        while let [.., before, last] = corners[..] {
            if slope(before, last) < slope(last, point) {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// Returns the highest saving per byte and interval on the way to a larger size, averaged over that
/// way. A cliff beyond the next byte therefore counts.
pub(crate) fn worth_of_more(curve: &Curve, bytes: u64) -> f64 {
    let now = curve.at(bytes);
    let beyond = curve.points().iter().filter(|point| point.bytes > bytes);
    beyond.map(|point| (now - point.value) / float(point.bytes - bytes)).fold(0.0, f64::max)
}

/// Returns the lowest cost per byte and interval on the way to a smaller size; infinite at the
/// floor.
pub(crate) fn worth_of_less(curve: &Curve, bytes: u64, floor: u64) -> f64 {
    let now = curve.at(bytes);
    let sizes = curve.points().iter().map(|point| point.bytes).chain([floor]);
    let below = sizes.filter(|size| (floor..bytes).contains(size));
    let costs = below.map(|size| (curve.at(size) - now) / float(bytes - size));
    costs.min_by(f64::total_cmp).unwrap_or(f64::INFINITY)
}

//! What can be given up, and what it is worth.

use super::{Book, book::Seat};
use crate::{Curve, number::float};

/// Bytes that can be had together for a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lot {
    /// Who gives; nobody if they are free.
    pub(super) seat: Option<usize>,
    pub(super) bytes: u64,
    /// By how much the giver's penalty rises over the horizon, with what moving costs.
    pub(super) loss: f64,
}

impl Lot {
    fn per_byte(&self) -> f64 {
        self.loss / float(self.bytes.max(1))
    }
}

/// Everything that could be given up, cheapest by the byte first, what is free in front.
///
/// A giver's lots are the lower convex hull of its loss, so taking them in order takes each
/// giver's in its order, and stops above its cliffs as long as anything else is cheaper.
pub(super) fn lots(book: &Book<'_>) -> Vec<Lot> {
    let given = |(at, seat)| given_by(book, at, seat);
    let mut lots: Vec<Lot> = book.seats.iter().enumerate().flat_map(given).collect();
    lots.sort_by(|a, b| a.per_byte().total_cmp(&b.per_byte()).then(a.seat.cmp(&b.seat)));
    let free = book.free();
    if free > 0 {
        lots.insert(0, Lot { seat: None, bytes: free, loss: 0.0 });
    }
    lots
}

fn given_by(book: &Book<'_>, at: usize, seat: &Seat<'_>) -> Vec<Lot> {
    if seat.grant <= seat.low {
        return Vec::new();
    }
    let now = seat.penalty(seat.grant);
    let bends = seat.bends(seat.low, seat.grant - 1).rev();
    let losses = bends.chain([seat.low]).map(|bytes| {
        let given = seat.grant - bytes;
        (given, seat.penalty(bytes) - now + book.moving(given))
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

/// The corners of the lower convex hull of points by rising first part, from (0, 0) on.
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

/// The most that a byte more is worth an interval on the way to a larger size, on average over
/// that way, so that a cliff out of reach of the next byte shows.
pub(crate) fn worth_of_more(curve: &Curve, bytes: u64) -> f64 {
    let now = curve.at(bytes);
    let beyond = curve.points().iter().filter(|point| point.bytes > bytes);
    beyond.map(|point| (now - point.value) / float(point.bytes - bytes)).fold(0.0, f64::max)
}

/// The least that a byte less costs an interval on the way to a smaller size.
pub(crate) fn worth_of_less(curve: &Curve, bytes: u64, floor: u64) -> f64 {
    let now = curve.at(bytes);
    let sizes = curve.points().iter().map(|point| point.bytes).chain([floor]);
    let below = sizes.filter(|size| (floor..bytes).contains(size));
    let costs = below.map(|size| (curve.at(size) - now) / float(bytes - size));
    costs.min_by(f64::total_cmp).unwrap_or(f64::INFINITY)
}

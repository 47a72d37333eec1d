//! Sampling of a falling function of bytes into the points of a curve.

use super::point::Point;
use crate::number::float;

/// Maximum distance of the curve from the function, as a share of the range of the function.
const TOLERANCE: f64 = 0.002;
/// Maximum number of points of a sampled curve. Locating a cliff to the byte in 2^40 takes 41.
const POINTS_MAX: usize = 512;

/// Returns the points of the curve of `value`, which must not rise, through `sizes` and as many
/// sizes between them as are needed. Cliffs between sizes are located to the byte.
pub(super) fn sampled(sizes: &[u64], value: impl Fn(u64) -> f64) -> Vec<Point> {
    let known: Vec<Point> = sizes.iter().map(|&bytes| Point::new(bytes, value(bytes))).collect();
    let range = match (known.first(), known.last()) {
        (Some(first), Some(last)) => first.value - last.value,
        _ => return vec![Point::new(0, 0.0)],
    };
    let mut sampler = Sampler { value, tolerance: range * TOLERANCE, points: Vec::new() };
    sampler.points.push(known[0]);
    for pair in known.windows(2) {
        sampler.between(pair[0], pair[1]);
    }
    sampler.points
}

struct Sampler<F> {
    value: F,
    tolerance: f64,
    points: Vec<Point>,
}

impl<F: Fn(u64) -> f64> Sampler<F> {
    /// Adds the points after `left` up to `right`, by bisection. The depth is at most 64.
    fn between(&mut self, left: Point, right: Point) {
        if right.bytes - left.bytes <= 1 || self.points.len() >= POINTS_MAX {
            return self.points.push(right);
        }
        let middle = self.point(left.bytes + (right.bytes - left.bytes) / 2);
        if self.is_straight(left, middle, right) {
            return self.points.push(right);
        }
        self.between(left, middle);
        self.between(middle, right);
    }

    /// True if the function is linear between `left` and `right`, judged by its quarters. Two
    /// cliffs may cancel in the middle, but not in the quarters as well.
    fn is_straight(&self, left: Point, middle: Point, right: Point) -> bool {
        if left.value - right.value <= self.tolerance {
            return true;
        }
        let quarter = self.point(left.bytes + (middle.bytes - left.bytes) / 2);
        let rest = self.point(middle.bytes + (right.bytes - middle.bytes) / 2);
        [quarter, middle, rest].iter().all(|point| {
            let part = float(point.bytes - left.bytes) / float(right.bytes - left.bytes);
            let straight = left.value + (right.value - left.value) * part;
            (straight - point.value).abs() <= self.tolerance
        })
    }

    fn point(&self, bytes: u64) -> Point {
        Point::new(bytes, (self.value)(bytes))
    }
}

//! Combined curve of several pieces of work that share memory.

use super::{Curve, Point};
use crate::number::float;

impl Curve {
    /// Returns the total cost of several pieces of work when memory is split among them optimally;
    /// flat at zero without curves.
    ///
    /// For one curve it is the curve itself. For several, each is replaced by its lower convex
    /// hull, so a cliff becomes a slope; the actual split decides which of them stays above its
    /// cliff.
    #[must_use]
    pub fn shared(curves: &[Self]) -> Self {
        let [first, others @ ..] = curves else { return Self::flat(0.0) };
        if others.is_empty() {
            return first.clone();
        }
        let hulls: Vec<Vec<Point>> = curves.iter().map(|curve| hull(curve.points())).collect();
        let corners = hulls.iter().filter_map(|hull| hull.first());
        let mut at = corners.fold(Point::new(0, 0.0), |sum, corner| {
            Point::new(sum.bytes.saturating_add(corner.bytes), sum.value + corner.value)
        });
        let slopes = hulls.iter().flat_map(|hull| hull.windows(2));
        let mut slopes: Vec<(u64, f64)> = slopes
            .map(|ends| (ends[1].bytes - ends[0].bytes, ends[0].value - ends[1].value))
            .collect();
        slopes.sort_by(|a, b| (b.1 / float(b.0.max(1))).total_cmp(&(a.1 / float(a.0.max(1)))));
        let mut points = vec![at];
        for (bytes, saved) in slopes {
            at = Point::new(at.bytes.saturating_add(bytes), (at.value - saved).max(0.0));
            points.push(at);
        }
        points.dedup_by_key(|point| point.bytes);
        Self::descending(points)
    }
}

/// Returns the lower convex hull of points that rise in bytes.
fn hull(points: &[Point]) -> Vec<Point> {
    let slope = |a: Point, b: Point| (b.value - a.value) / float((b.bytes - a.bytes).max(1));
    let mut corners: Vec<Point> = Vec::new();
    for &point in points {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(from: (u64, f64), to: (u64, f64)) -> Curve {
        Curve::new([Point::new(from.0, from.1), Point::new(to.0, to.1)]).expect("a curve")
    }

    #[test]
    fn the_steeper_work_is_served_first() {
        let (steep, gentle) = (line((10, 100.0), (20, 0.0)), line((0, 50.0), (50, 0.0)));
        let both = Curve::shared(&[gentle.clone(), steep]);
        assert_eq!([0, 10, 20, 45, 70].map(|at| both.at(at)), [150.0, 150.0, 50.0, 25.0, 0.0]);
        assert_eq!(Curve::shared(std::slice::from_ref(&gentle)), gentle);
        assert_eq!(Curve::shared(&[]).at(7), 0.0);
    }

    #[test]
    fn no_split_is_better() {
        let cliff = Curve::steps([(0, 9.0), (100, 3.0)].map(|(b, v)| Point::new(b, v)));
        let curves = [cliff.expect("a curve"), line((0, 40.0), (300, 0.0))];
        let both = Curve::shared(&curves);
        for bytes in (0..=400).step_by(10) {
            let splits = (0..=bytes).map(|one| curves[0].at(one) + curves[1].at(bytes - one));
            let best = splits.fold(f64::INFINITY, f64::min);
            assert!(both.at(bytes) <= best + 1e-9, "{bytes}: {} over {best}", both.at(bytes));
        }
        assert!(both.is_convex());
    }
}

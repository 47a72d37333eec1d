//! Curves as polylines: their construction, values and arithmetic.

use super::{point::Point, sample::sampled, simplify::simplified};
use crate::number::{count, float};

/// Cost as a function of bytes: never rises, and is linear between its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Points of the curve: never empty; bytes rise strictly, values never rise.
    points: Vec<Point>,
}

/// Error of building a curve from points.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CurveError {
    /// There are no points.
    #[error("a curve needs at least one point")]
    Empty,
    /// A value is negative, infinite or not a number.
    #[error("{value} at {bytes} bytes is no cost; it must be a number of 0 or more")]
    NotACost {
        /// Size of the point in bytes.
        bytes: u64,
        /// Value of the point.
        value: f64,
    },
}

impl Curve {
    /// Returns a curve through points in any order.
    ///
    /// If a point with more bytes costs more, its cost is lowered to that of fewer bytes, since a
    /// consumer need not use all it is granted. Of two points at one size the cheaper counts.
    ///
    /// # Errors
    /// [`CurveError`] if there are no points, or if a value is not a number of 0 or more.
    pub fn new(points: impl IntoIterator<Item = Point>) -> Result<Self, CurveError> {
        let mut points: Vec<Point> = points.into_iter().collect();
        if let Some(&Point { bytes, value }) =
            points.iter().find(|point| !(point.value >= 0.0 && point.value.is_finite()))
        {
            return Err(CurveError::NotACost { bytes, value });
        }
        if points.is_empty() {
            return Err(CurveError::Empty);
        }
        points.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.value.total_cmp(&b.value)));
        points.dedup_by_key(|point| point.bytes);
        Ok(Self::descending(points))
    }

    /// Returns a constant curve.
    #[must_use]
    pub fn flat(value: f64) -> Self {
        Self::descending(vec![Point::new(0, value)])
    }

    /// Returns a step function: each value holds from its bytes up to those of the next point.
    ///
    /// # Errors
    /// As [`Curve::new`].
    pub fn steps(points: impl IntoIterator<Item = Point>) -> Result<Self, CurveError> {
        let mut landings: Vec<Point> = points.into_iter().collect();
        landings.sort_by_key(|point| point.bytes);
        let edges = landings.windows(2).filter(|pair| pair[0].bytes + 1 < pair[1].bytes);
        let edges: Vec<Point> =
            edges.map(|pair| Point::new(pair[1].bytes - 1, pair[0].value)).collect();
        Self::new(landings.into_iter().chain(edges))
    }

    /// Returns a curve of points whose bytes rise strictly and whose values are costs; there must
    /// be at least one. Values that rise are lowered.
    pub(crate) fn descending(mut points: Vec<Point>) -> Self {
        let mut least = f64::INFINITY;
        for point in &mut points {
            least = least.min(point.value);
            point.value = least;
        }
        Self { points }
    }

    /// Returns the cost with `bytes`.
    #[must_use]
    pub fn at(&self, bytes: u64) -> f64 {
        let after = self.points.partition_point(|point| point.bytes <= bytes);
        let Some(right) = self.points.get(after) else { return self.last().value };
        let Some(left) = after.checked_sub(1).map(|at| self.points[at]) else {
            return right.value;
        };
        let part = float(bytes - left.bytes) / float(right.bytes - left.bytes);
        left.value + (right.value - left.value) * part
    }

    /// Returns the points, by rising bytes. There is at least one.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the lowest cost, which no amount of memory improves.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.last().value
    }

    /// Returns the fewest bytes with the lowest cost: more memory is of no use.
    #[must_use]
    pub fn useful_bytes(&self) -> u64 {
        let least = self.least();
        let first = self.points.partition_point(|point| point.value > least);
        self.points.get(first).map_or(0, |point| if first == 0 { 0 } else { point.bytes })
    }

    /// True if each byte saves no more than the one before it. A curve with a cliff beyond its
    /// first bytes is not convex.
    #[must_use]
    pub fn is_convex(&self) -> bool {
        let flat_head = self.points.first().is_some_and(|point| {
            point.bytes > 0 && self.points.len() > 1 && point.value > self.least()
        });
        let slope = |a: Point, b: Point| (a.value - b.value) / float(b.bytes - a.bytes);
        let bends = |w: &[Point]| {
            let (before, after) = (slope(w[0], w[1]), slope(w[1], w[2]));
            after > before * (1.0 + 1e-9)
        };
        !flat_head && !self.points.windows(3).any(bends)
    }

    /// Returns the curve with every cost multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |point: &Point| Point::new(point.bytes, point.value * factor.max(0.0));
        Self::descending(self.points.iter().map(scale).collect())
    }

    /// Returns the curve with every size multiplied by `factor`: the cost of the same work on more
    /// data.
    #[must_use]
    pub fn stretched(&self, factor: f64) -> Self {
        let mut points: Vec<Point> = Vec::with_capacity(self.points.len());
        for point in &self.points {
            let mut bytes = count(float(point.bytes) * factor.max(0.0));
            if let Some(last) = points.last() {
                bytes = bytes.max(last.bytes.saturating_add(1));
            }
            points.push(Point::new(bytes, point.value));
        }
        Self::descending(points)
    }

    /// Returns the curve of `f` of the cost. `f` must not fall as its argument rises.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let value = |bytes: u64| f(self.at(bytes)).max(0.0);
        let sizes: Vec<u64> = self.points.iter().map(|point| point.bytes).collect();
        Self::descending(sampled(&sizes, value))
    }

    /// Returns the sum of two curves.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sizes: Vec<u64> =
            self.points.iter().chain(&other.points).map(|point| point.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sum = |bytes| Point::new(bytes, self.at(bytes) + other.at(bytes));
        Self::descending(sizes.into_iter().map(sum).collect())
    }

    /// Returns a curve of at most `points_max` points (2 at least) that is close to this one. The
    /// points that change it least are removed first, so cliffs stay.
    #[must_use]
    pub fn simplified(&self, points_max: usize) -> Self {
        Self { points: simplified(&self.points, points_max.max(2)) }
    }

    fn last(&self) -> Point {
        self.points.last().copied().unwrap_or(Point::new(0, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> Curve {
        Curve::new(points.iter().map(|&(bytes, value)| Point::new(bytes, value))).expect("a curve")
    }

    #[test]
    fn a_curve_is_straight_between_points_and_flat_outside() {
        let line = curve(&[(10, 8.0), (20, 4.0), (30, 4.0)]);
        assert_eq!([0, 10, 15, 20, 99].map(|at| line.at(at)), [8.0, 8.0, 6.0, 4.0, 4.0]);
        assert_eq!((line.least(), line.useful_bytes()), (4.0, 20));
        assert_eq!(Curve::flat(3.0).useful_bytes(), 0);
    }

    #[test]
    fn more_memory_never_costs_more() {
        let bumpy = curve(&[(0, 5.0), (20, 9.0), (10, 4.0), (10, 6.0)]);
        assert_eq!([0, 10, 20].map(|at| bumpy.at(at)), [5.0, 4.0, 4.0]);
    }

    #[test]
    fn steps_are_exact_to_the_byte() {
        let stairs =
            Curve::steps([(0, 9.0), (100, 3.0), (200, 0.0)].map(|(b, v)| Point::new(b, v)))
                .expect("a curve");
        let seen = [0, 99, 100, 199, 200].map(|at| stairs.at(at));
        assert_eq!(seen, [9.0, 9.0, 3.0, 3.0, 0.0]);
        assert!(!stairs.is_convex());
    }

    #[test]
    fn convexity() {
        assert!(curve(&[(0, 9.0), (10, 3.0), (20, 1.0)]).is_convex());
        assert!(!curve(&[(0, 9.0), (10, 8.0), (20, 1.0)]).is_convex());
        assert!(!curve(&[(10, 9.0), (20, 1.0)]).is_convex(), "flat before its first point");
        assert!(Curve::flat(1.0).is_convex());
    }

    #[test]
    fn no_curve_without_costs() {
        assert_eq!(Curve::new([]), Err(CurveError::Empty));
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            let error = Curve::new([Point::new(7, value)]).expect_err("no cost");
            assert!(error.to_string().contains("at 7 bytes"), "{error}");
        }
    }

    #[test]
    fn curves_stretch_scale_and_add() {
        let line = curve(&[(0, 8.0), (10, 0.0)]);
        assert_eq!(line.stretched(2.0).at(10), 4.0);
        assert_eq!(line.scaled(0.5).at(5), 2.0);
        let sum = line.plus(&curve(&[(0, 4.0), (5, 0.0)]));
        assert_eq!([0, 5, 10].map(|at| sum.at(at)), [12.0, 4.0, 0.0]);
        assert_eq!(line.stretched(0.0).points().len(), 2, "bytes still rise");
    }

    #[test]
    fn a_map_finds_its_cliffs() {
        let line = curve(&[(0, 100.0), (1 << 30, 0.0)]);
        let step = line.map(|value| if value > 25.0 { 7.0 } else { 0.0 });
        let edge = 3 * (1 << 28);
        assert_eq!([0, edge - 1, edge, 1 << 30].map(|at| step.at(at)), [7.0, 7.0, 0.0, 0.0]);
        let square = line.map(|value| value * value);
        for at in [1 << 20, 1 << 28, 1 << 29, 900 << 20] {
            let exact = line.at(at) * line.at(at);
            assert!((square.at(at) - exact).abs() < 50.0, "{} for {exact}", square.at(at));
        }
    }

    #[test]
    fn a_simplified_curve_keeps_its_cliffs() {
        let smooth = (0..400_u64).map(|at| Point::new(at * 1000, 500.0 - float(at)));
        let cliff = [Point::new(400_000, 100.0), Point::new(400_001, 1.0)];
        let full = Curve::new(smooth.chain(cliff)).expect("a curve");
        let small = full.simplified(8);
        assert!(small.points().len() <= 8);
        assert_eq!((small.at(400_000), small.at(400_001)), (100.0, 1.0));
        assert!((small.at(123_456) - full.at(123_456)).abs() < 1.0);
    }
}

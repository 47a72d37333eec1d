//! Curve simplification: fewer points for nearly the same curve.

use super::point::Point;
use crate::number::float;

/// Returns at most `points_max` of the points. The points with the smallest triangles with their
/// neighbours are removed first (Visvalingam and Whyatt, The Cartographic Journal 1993).
pub(super) fn simplified(points: &[Point], points_max: usize) -> Vec<Point> {
    let mut kept = points.to_vec();
    let mut areas: Vec<f64> = (0..kept.len()).map(|at| area(&kept, at)).collect();
    while kept.len() > points_max {
        let smallest = areas.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((at, _)) = smallest else { return kept };
        kept.remove(at);
        areas.remove(at);
        for neighbour in [at.wrapping_sub(1), at] {
            if neighbour < kept.len() {
                areas[neighbour] = area(&kept, neighbour);
            }
        }
    }
    kept
}

/// Returns twice the area of a point's triangle; infinite at the ends, which stay.
fn area(points: &[Point], at: usize) -> f64 {
    if at == 0 || at + 1 >= points.len() {
        return f64::INFINITY;
    }
    let [a, b, c] = [points[at - 1], points[at], points[at + 1]];
    let width = float(c.bytes - a.bytes);
    let straight = a.value + (c.value - a.value) * float(b.bytes - a.bytes) / width;
    (straight - b.value).abs() * width
}

//! Comparison of results as multisets of rows.

use std::cmp::Ordering;

use super::cell::Cell;

/// Relative tolerance: floats that differ by a smaller share are equal.
const TOLERANCE: f64 = 1e-9;
/// Maximum number of rows of results that are matched row by row if sorting pairs their floats
/// wrongly.
const MATCH_ROWS_MAX: usize = 2000;

/// True if both results have the same rows, in any order.
#[must_use]
pub fn same(left: &[Vec<Cell>], right: &[Vec<Cell>]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let (mut left, mut right): (Vec<_>, Vec<_>) = (left.iter().collect(), right.iter().collect());
    left.sort_by(|a, b| order(a, b));
    right.sort_by(|a, b| order(a, b));
    if left.iter().zip(&right).all(|(left, right)| same_row(left, right)) {
        return true;
    }
    left.len() <= MATCH_ROWS_MAX && matched(&left, right)
}

/// True if every row of one result can be paired with an equal row of the other.
fn matched(left: &[&Vec<Cell>], mut right: Vec<&Vec<Cell>>) -> bool {
    left.iter().all(|row| {
        let place = right.iter().position(|other| same_row(row, other));
        place.map(|place| right.swap_remove(place)).is_some()
    })
}

fn same_row(left: &[Cell], right: &[Cell]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_cell(left, right))
}

fn same_cell(left: &Cell, right: &Cell) -> bool {
    if let (Cell::Exact(..), Cell::Exact(..)) = (left, right) {
        return left == right;
    }
    match (left.number(), right.number()) {
        (Some(left), Some(right)) => same_number(left, right),
        _ => left == right,
    }
}

fn same_number(left: f64, right: f64) -> bool {
    let nan = left.is_nan() && right.is_nan();
    let near = (left - right).abs() <= TOLERANCE * left.abs().max(right.abs()).max(TOLERANCE);
    nan || left == right || near
}

/// Compares rows by floats last, so that equal rows mostly get the same position.
fn order(left: &[Cell], right: &[Cell]) -> Ordering {
    let exact = left.iter().zip(right).map(|(left, right)| match (left, right) {
        (Cell::Float(_), _) | (_, Cell::Float(_)) => Ordering::Equal,
        (left, right) => order_exact(left, right),
    });
    let floats =
        left.iter().zip(right).map(|(left, right)| match (left.number(), right.number()) {
            (Some(left), Some(right)) => order_floats(left, right),
            _ => order_exact(left, right),
        });
    exact.chain(floats).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Compares floats; NaN is the greatest, as in PostgreSQL.
fn order_floats(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
        (left, right) => left.cmp(&right),
    }
}

fn order_exact(left: &Cell, right: &Cell) -> Ordering {
    let rank = |cell: &Cell| match cell {
        Cell::Null => 0,
        Cell::Bool(_) => 1,
        Cell::Exact(..) | Cell::Float(_) => 2,
        Cell::Text(_) => 3,
        Cell::Moment(_) => 4,
    };
    match (left, right) {
        (Cell::Bool(left), Cell::Bool(right)) => left.cmp(right),
        (Cell::Exact(left, scale), Cell::Exact(right, other)) => (scale, left).cmp(&(other, right)),
        (Cell::Text(left), Cell::Text(right)) => left.cmp(right),
        (Cell::Moment(left), Cell::Moment(right)) => left.cmp(right),
        _ => rank(left).cmp(&rank(right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64) -> Cell {
        Cell::Float(value)
    }

    fn text(value: &str) -> Cell {
        Cell::Text(value.to_owned())
    }

    #[test]
    fn order_of_rows_and_noise_of_floats_are_no_difference() {
        let left = vec![vec![text("a"), float(0.1 + 0.2)], vec![text("b"), float(f64::NAN)]];
        let right = vec![vec![text("b"), float(f64::NAN)], vec![text("a"), float(0.3)]];
        assert!(same(&left, &right));
        assert!(same(&[vec![float(-0.0)]], &[vec![float(0.0)]]));
        assert!(same(&[vec![float(2.5)]], &[vec![Cell::Exact(25, 1)]]));
        let pairs =
            |low: f64, high: f64| vec![vec![float(low), text("x")], vec![float(high), text("y")]];
        assert!(same(&pairs(1.0, 1.0 + 1e-12), &pairs(1.0 + 1e-12, 1.0)));
    }

    #[test]
    fn any_rows_can_be_sorted() {
        let floats = [f64::NAN, f64::INFINITY, 1.0, -0.0, 0.0, f64::NEG_INFINITY];
        let cells = floats.into_iter().map(float).chain([Cell::Null]);
        let rows: Vec<_> = (0..40).flat_map(|_| cells.clone().map(|cell| vec![cell])).collect();
        let reversed: Vec<_> = rows.iter().rev().cloned().collect();
        assert!(same(&rows, &reversed));
    }

    #[test]
    fn a_changed_value_is_a_difference() {
        let rows = vec![vec![text("a"), Cell::Exact(1, 0)], vec![text("a"), Cell::Exact(1, 0)]];
        let changed = |row: Vec<Cell>| [rows[0].clone(), row].to_vec();
        assert!(same(&rows, &rows));
        assert!(!same(&rows, &rows[..1]));
        assert!(!same(&rows, &changed(vec![text("a"), Cell::Exact(2, 0)])));
        assert!(!same(&rows, &changed(vec![text("a"), Cell::Null])));
        assert!(!same(&rows, &changed(vec![text("a")])));
        assert!(!same(&[vec![float(1.0)]], &[vec![float(1.000_001)]]));
        assert!(!same(&[vec![float(f64::NAN)]], &[vec![Cell::Null]]));
    }
}

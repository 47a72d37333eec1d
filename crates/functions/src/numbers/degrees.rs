//! PostgreSQL's trigonometric functions of degrees, which are exact at multiples of 30 and 45.

use std::f64::consts::PI;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use crate::scalar::{Call, Definition, Double, Kind, Overload};

const ONE: &[Kind] = &[Kind::Double];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("sind", &[Overload::new(ONE, Kind::Double, |it| unary(it, sin))]),
    Definition::new("cosd", &[Overload::new(ONE, Kind::Double, |it| unary(it, cos))]),
    Definition::new("tand", &[Overload::new(ONE, Kind::Double, |it| unary(it, tan))]),
    Definition::new("cotd", &[Overload::new(ONE, Kind::Double, |it| unary(it, cot))]),
    Definition::new("asind", &[Overload::new(ONE, Kind::Double, |it| unary(it, asin))]),
    Definition::new("acosd", &[Overload::new(ONE, Kind::Double, |it| unary(it, acos))]),
    Definition::new("atand", &[Overload::new(ONE, Kind::Double, |it| unary(it, atan))]),
    Definition::new(
        "atan2d",
        &[Overload::new(&[Kind::Double, Kind::Double], Kind::Double, |call| {
            call.map2::<Double, Double, Double>(|y, x| Ok(Some(degrees(y.atan2(x)))))
        })],
    ),
];

/// Maps numbers; `function` returns nothing for a number that is out of its range.
fn unary(call: &Call, function: fn(f64) -> Option<f64>) -> Result<ArrayRef> {
    call.map1::<Double, Double>(|number| match function(number) {
        _ if number.is_nan() => Ok(Some(number)),
        None => exec_err!("{}: the input {number} is out of range", call.name()),
        result => Ok(result),
    })
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

/// The degrees of an angle, which are exact for 45.
fn degrees(radians: f64) -> f64 {
    radians / 1.0_f64.atan() * 45.0
}

/// The sine of an angle in the first quadrant.
fn sin_of_quadrant(degrees: f64) -> f64 {
    match degrees {
        ..=30.0 => radians(degrees).sin() / radians(30.0).sin() / 2.0,
        _ => cos_of_quadrant(90.0 - degrees),
    }
}

/// The cosine of an angle in the first quadrant.
fn cos_of_quadrant(degrees: f64) -> f64 {
    match degrees {
        ..=60.0 => {
            let below_one = 1.0 - radians(degrees).cos();
            1.0 - below_one / (1.0 - radians(60.0).cos()) / 2.0
        }
        _ => sin_of_quadrant(90.0 - degrees),
    }
}

/// The angle mirrored to the first quadrant, true if it was in the left half of the circle, and
/// true if it was in the lower half; `None` for an infinite one.
fn quadrant(degrees: f64) -> Option<(f64, bool, bool)> {
    if degrees.is_infinite() {
        return None;
    }
    let (mut angle, mut is_below) = ((degrees % 360.0).abs(), degrees % 360.0 < 0.0);
    if angle > 180.0 {
        (angle, is_below) = (360.0 - angle, !is_below);
    }
    let is_left = angle > 90.0;
    Some((if is_left { 180.0 - angle } else { angle }, is_left, is_below))
}

fn signed(value: f64, is_negative: bool) -> f64 {
    if is_negative { -value } else { value }
}

fn sin(degrees: f64) -> Option<f64> {
    let (angle, _, is_below) = quadrant(degrees)?;
    Some(signed(sin_of_quadrant(angle), is_below))
}

fn cos(degrees: f64) -> Option<f64> {
    let (angle, is_left, _) = quadrant(degrees)?;
    Some(signed(cos_of_quadrant(angle), is_left))
}

fn tan(degrees: f64) -> Option<f64> {
    let (angle, is_left, is_below) = quadrant(degrees)?;
    let of = |angle: f64| sin_of_quadrant(angle) / cos_of_quadrant(angle);
    // The sum with zero has no negative zero.
    Some(signed(of(angle) / of(45.0), is_left != is_below) + 0.0)
}

fn cot(degrees: f64) -> Option<f64> {
    let (angle, is_left, is_below) = quadrant(degrees)?;
    let of = |angle: f64| cos_of_quadrant(angle) / sin_of_quadrant(angle);
    Some(signed(of(angle) / of(45.0), is_left != is_below) + 0.0)
}

/// The angle whose sine is a number from 0 to 1.
fn asin_of_quadrant(number: f64) -> f64 {
    match number {
        ..=0.5 => number.asin() / 0.5_f64.asin() * 30.0,
        _ => 90.0 - number.acos() / 0.5_f64.acos() * 60.0,
    }
}

fn asin(number: f64) -> Option<f64> {
    let angle = asin_of_quadrant(number.abs());
    (number.abs() <= 1.0).then(|| signed(angle, number < 0.0))
}

fn acos(number: f64) -> Option<f64> {
    if number.abs() > 1.0 {
        return None;
    }
    Some(match number {
        ..0.0 => 90.0 + asin_of_quadrant(-number),
        ..=0.5 => 90.0 - number.asin() / 0.5_f64.asin() * 30.0,
        _ => number.acos() / 0.5_f64.acos() * 60.0,
    })
}

fn atan(number: f64) -> Option<f64> {
    Some(degrees(number.atan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of PostgreSQL 15.
    #[test]
    fn angles_are_those_of_postgresql() {
        let close = |found: Option<f64>, right: f64| {
            let found = found.expect("in range");
            assert!((found - right).abs() < 1e-13, "{found} {right}");
        };
        let sines = [-30.0, 30.0, 390.0, 150.0, 210.0, -390.0, 0.0, 180.0].map(sin);
        let exact = [-0.5, 0.5, 0.5, 0.5, -0.5, -0.5, 0.0, 0.0];
        assert_eq!(sines, exact.map(Some));
        assert_eq!([-60.0, 120.0, 240.0, 90.0].map(cos), [0.5, -0.5, -0.5, 0.0].map(Some));
        assert_eq!([135.0, 45.0, -45.0, 180.0].map(tan), [-1.0, 1.0, -1.0, 0.0].map(Some));
        assert_eq!([tan(90.0), cot(0.0)], [Some(f64::INFINITY); 2]);
        assert_eq!([-0.5, 1.0, 2.0].map(asin), [Some(-30.0), Some(90.0), None]);
        assert_eq!([-0.5, 0.5, -2.0].map(acos), [Some(120.0), Some(60.0), None]);
        assert_eq!([-1.0, 1.0].map(atan), [-45.0, 45.0].map(Some));
        assert_eq!(sin(f64::INFINITY), None);
        close(asin(0.3), 17.45760312372209);
        close(sin(77.0), 0.9743700647852352);
        close(cos(77.0), 0.22495105434386503);
        close(tan(200.0), 0.3639702342662024);
    }
}

//! Signs, neighbors and special functions of floating-point numbers.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use crate::scalar::{Bool, Call, Definition, Double, Kind, Overload};

const ONE: &[Kind] = &[Kind::Double];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("sign", &[Overload::new(ONE, Kind::Double, sign)]),
    Definition::new("signbit", &[Overload::new(ONE, Kind::Boolean, signbit)]),
    Definition::new("even", &[Overload::new(ONE, Kind::Double, even)]),
    Definition::new(
        "nextafter",
        &[Overload::new(&[Kind::Double, Kind::Double], Kind::Double, nextafter)],
    ),
    Definition::new("gamma", &[Overload::new(ONE, Kind::Double, gamma)]),
    Definition::new("lgamma", &[Overload::new(ONE, Kind::Double, lgamma)]),
    Definition::new("erf", &[Overload::new(ONE, Kind::Double, erf)]),
    Definition::new("erfc", &[Overload::new(ONE, Kind::Double, erfc)]),
];

fn unary(call: &Call, function: fn(f64) -> f64) -> Result<ArrayRef> {
    call.map1::<Double, Double>(|number| Ok(Some(function(number))))
}

/// -1, 0 or 1; 0 for NaN.
fn sign(call: &Call) -> Result<ArrayRef> {
    unary(call, |number| match number {
        _ if number > 0.0 => 1.0,
        _ if number < 0.0 => -1.0,
        _ => 0.0,
    })
}

fn signbit(call: &Call) -> Result<ArrayRef> {
    call.map1::<Double, Bool>(|number| Ok(Some(number.is_sign_negative())))
}

/// The next even number away from zero.
fn even(call: &Call) -> Result<ArrayRef> {
    unary(call, |number| {
        let whole = (number.abs() / 2.0).ceil() * 2.0;
        whole.copysign(number)
    })
}

fn nextafter(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|from, to| Ok(Some(libm::nextafter(from, to))))
}

fn gamma(call: &Call) -> Result<ArrayRef> {
    unary(call, |number| match number {
        0.0 => f64::INFINITY,
        _ => libm::tgamma(number),
    })
}

fn lgamma(call: &Call) -> Result<ArrayRef> {
    unary(call, libm::lgamma)
}

fn erf(call: &Call) -> Result<ArrayRef> {
    unary(call, libm::erf)
}

fn erfc(call: &Call) -> Result<ArrayRef> {
    unary(call, libm::erfc)
}

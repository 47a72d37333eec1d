//! Mathematical functions that refuse arguments for which PostgreSQL has no result.
//!
//! DataFusion returns NaN or an infinity for them.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::functions::math;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};

use crate::checked::Checked;

/// Function of the first argument, the last argument and the result of a call that returns its
/// error, or `None`. For a function of one argument the first two are equal.
type Fault = fn(f64, f64, f64) -> Option<&'static str>;

const OF_ZERO: &str = "cannot take logarithm of zero";
const OF_NEGATIVE: &str = "cannot take logarithm of a negative number";
const INPUT: &str = "input is out of range";
const OVERFLOW: &str = "value out of range: overflow";
const UNDERFLOW: &str = "value out of range: underflow";

/// Returns the functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let stock = [
        math::ln(),
        math::log(),
        math::log2(),
        math::log10(),
        math::exp(),
        math::power(),
        math::sin(),
        math::cos(),
        math::tan(),
        math::cot(),
        math::asin(),
        math::acos(),
        math::acosh(),
        math::atanh(),
    ];
    stock.into_iter().map(|function| Checked::verifying(function, verified)).collect()
}

/// The check of the function `name`.
fn fault_of(name: &str) -> Fault {
    match name {
        "log" => base_fault,
        "ln" | "log2" | "log10" => |number, _, _| logarithm_fault(number),
        "exp" => |number, _, result| range_fault(number.is_finite(), result),
        "power" => power_fault,
        "asin" | "acos" | "atanh" => |number, _, _| (number.abs() > 1.0).then_some(INPUT),
        "acosh" => |number, _, _| (number < 1.0).then_some(INPUT),
        _ => |number, _, _| number.is_infinite().then_some(INPUT),
    }
}

fn logarithm_fault(number: f64) -> Option<&'static str> {
    match number {
        0.0 => Some(OF_ZERO),
        _ if number < 0.0 => Some(OF_NEGATIVE),
        _ => None,
    }
}

/// The error of `log(number)`, whose base is 10, and of `log(base, number)`.
fn base_fault(base: f64, number: f64, result: f64) -> Option<&'static str> {
    let fault = logarithm_fault(base).or_else(|| logarithm_fault(number));
    // The logarithm to base 1 is infinite, or NaN for 1; that of another finite number is finite.
    let is_base_one = base == 1.0 && !result.is_finite() && !number.is_nan();
    fault.or_else(|| is_base_one.then_some("division by zero"))
}

fn power_fault(base: f64, exponent: f64, result: f64) -> Option<&'static str> {
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return Some("a negative number raised to a non-integer power yields a complex result");
    }
    range_fault(base.is_finite() && base != 0.0 && exponent.is_finite(), result)
}

/// The error for an overflow or underflow: an infinite or zero result, if `are_finite`.
fn range_fault(are_finite: bool, result: f64) -> Option<&'static str> {
    match result {
        _ if !are_finite => None,
        0.0 => Some(UNDERFLOW),
        _ if result.is_infinite() => Some(OVERFLOW),
        _ => None,
    }
}

/// Returns the result, or the error of the first row that has one.
fn verified(name: &str, given: &[ColumnarValue], result: ColumnarValue) -> Result<ColumnarValue> {
    let (Some(first), Some(last)) = (given.first(), given.last()) else { return Ok(result) };
    // DataFusion returns a row for each of the batch, also for constants.
    let rows = match &result {
        ColumnarValue::Array(results) => results.len(),
        ColumnarValue::Scalar(_) => 1,
    };
    let doubles = |value: &ColumnarValue| -> Result<ArrayRef> {
        Ok(cast(&value.to_array(rows)?, &DataType::Float64)?)
    };
    let (first, last, results) = (doubles(first)?, doubles(last)?, doubles(&result)?);
    let [first, last] = [&first, &last].map(|it| it.as_primitive::<Float64Type>());
    let results = results.as_primitive::<Float64Type>();
    let fault = fault_of(name);
    for row in (0..results.len()).filter(|row| results.is_valid(*row)) {
        if let Some(text) = fault(first.value(row), last.value(row), results.value(row)) {
            return exec_err!("{text}");
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors of PostgreSQL 15.
    #[test]
    fn arguments_without_a_result_have_errors() {
        let of = |name: &str, first: f64, last: f64, result: f64| {
            fault_of(name)(first, last, result).unwrap_or("")
        };
        assert_eq!(of("ln", 0.0, 0.0, f64::NEG_INFINITY), OF_ZERO);
        assert_eq!(of("log10", -1.0, -1.0, f64::NAN), OF_NEGATIVE);
        assert_eq!(of("ln", f64::NAN, f64::NAN, f64::NAN), "");
        assert_eq!(of("log", 2.0, 0.0, f64::NEG_INFINITY), OF_ZERO);
        assert_eq!(of("log", -2.0, 8.0, f64::NAN), OF_NEGATIVE);
        assert_eq!(of("log", 1.0, 8.0, f64::INFINITY), "division by zero");
        // log(1) of one argument, whose base is 10.
        assert_eq!(of("log", 1.0, 1.0, 0.0), "");
        assert_eq!(of("exp", 1000.0, 1000.0, f64::INFINITY), OVERFLOW);
        assert_eq!(of("exp", f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0), "");
        assert_eq!(of("power", 10.0, 400.0, f64::INFINITY), OVERFLOW);
        assert_eq!(of("power", 10.0, -400.0, 0.0), UNDERFLOW);
        assert_eq!(of("power", 0.0, 2.0, 0.0), "");
        assert_eq!(of("power", -8.0, 3.0, -512.0), "");
        assert!(of("power", -8.0, 0.5, f64::NAN).contains("complex result"));
        assert_eq!(of("acos", 2.0, 2.0, f64::NAN), INPUT);
        assert_eq!(of("sin", f64::INFINITY, f64::INFINITY, f64::NAN), INPUT);
    }
}

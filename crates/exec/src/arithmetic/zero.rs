//! Floating-point divisors that are zero.

use datafusion::arrow::array::{Array as _, ArrowPrimitiveType, AsArray as _, Datum};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;

/// Refuses a divisor of zero. NaN divided by zero is NaN, as in PostgreSQL.
///
/// # Errors
/// A divisor of zero beside a number.
pub(super) fn refuse_zeros(dividend: &dyn Datum, divisor: &dyn Datum) -> Result<(), ArrowError> {
    match divisor.get().0.data_type() {
        DataType::Float64 => refuse::<Float64Type>(dividend, divisor),
        DataType::Float32 => refuse::<Float32Type>(dividend, divisor),
        _ => Ok(()),
    }
}

fn refuse<T: ArrowPrimitiveType>(
    dividend: &dyn Datum,
    divisor: &dyn Datum,
) -> Result<(), ArrowError> {
    // Both zeros.
    let is_zero = |it: T::Native| it == T::Native::default();
    let is_nan = |it: T::Native| it.partial_cmp(&it).is_none();
    let ((left, is_left_constant), (right, is_right_constant)) = (dividend.get(), divisor.get());
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    if !right.values().iter().any(|it| is_zero(*it)) {
        return Ok(());
    }
    let rows = if is_left_constant { right.len() } else { left.len() };
    let fails = |row: usize| {
        let left_row = if is_left_constant { 0 } else { row };
        let right_row = if is_right_constant { 0 } else { row };
        right.is_valid(right_row)
            && is_zero(right.value(right_row))
            && left.is_valid(left_row)
            && !is_nan(left.value(left_row))
    };
    match (0..rows).any(fails) {
        true => Err(ArrowError::DivideByZero),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float64Array, Scalar};

    use super::*;

    #[test]
    fn a_divisor_of_zero_is_refused_beside_a_number() {
        let left = Float64Array::from(vec![Some(1.0), None, Some(f64::NAN), Some(f64::INFINITY)]);
        let zero = || Scalar::new(Float64Array::from(vec![-0.0]));
        for (row, is_refused) in [(0, true), (1, false), (2, false), (3, true)] {
            let row = left.slice(row, 1);
            assert_eq!(refuse_zeros(&row, &zero()).is_err(), is_refused, "{row:?}");
            assert_eq!(refuse_zeros(&Scalar::new(row), &zero()).is_err(), is_refused);
        }
        assert!(refuse_zeros(&left, &zero()).is_err());
        let over = Float64Array::from(vec![Some(2.0), Some(0.0), Some(0.0), None]);
        assert!(refuse_zeros(&left, &over).is_ok());
        let one = Scalar::new(Float64Array::from(vec![1.0]));
        assert!(refuse_zeros(&one, &over).is_err());
        let nothing = Scalar::new(Float64Array::from(vec![None]));
        assert!(refuse_zeros(&nothing, &over).is_ok());
        assert!(refuse_zeros(&over, &nothing).is_ok());
    }
}

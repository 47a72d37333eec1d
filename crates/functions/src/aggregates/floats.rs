//! Canonical floating-point numbers: equal numbers of SQL get equal bits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};

/// Returns an array of FLOAT or DOUBLE whose zeros are positive and whose NaNs are the positive
/// one, which is above infinity; an array of another type unchanged.
pub(crate) fn canonical(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let numbers = array.as_primitive::<Float32Type>();
            Arc::new(numbers.unary::<_, Float32Type>(|number| match number.is_nan() {
                true => f32::NAN,
                false => number + 0.0,
            }))
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>();
            Arc::new(numbers.unary::<_, Float64Type>(of_double))
        }
        _ => Arc::clone(array),
    }
}

/// Returns the canonical number equal to this one.
pub(super) fn of_double(number: f64) -> f64 {
    if number.is_nan() { f64::NAN } else { number + 0.0 }
}

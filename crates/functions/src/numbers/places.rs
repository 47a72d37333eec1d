//! `round` and `trunc` of floating-point numbers.
//!
//! `round(x)` takes the even one of two whole numbers that are equally near, as in PostgreSQL;
//! `round(x, places)` takes the one away from zero, as it does for decimals.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray as _, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::math;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

use crate::checked::rows;

/// DataFusion's function, whose result is NaN or infinite where the power of ten, or the product
/// with it, is beyond the range of doubles.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Places {
    function: Arc<ScalarUDF>,
}

/// Returns the functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let of = |function| Arc::new(ScalarUDF::new_from_impl(Places { function }));
    [math::round(), math::trunc()].map(of).to_vec()
}

impl ScalarUDFImpl for Places {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.function.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(given)
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [number, places] = args.args.as_slice() else {
            return match args.args.as_slice() {
                [number] if self.name() == "round" && number.data_type().is_floating() => {
                    half_to_even(number)
                }
                _ => self.function.invoke_with_args(args),
            };
        };
        let rows = rows(&args);
        let (number, places) = (number.clone(), places.clone());
        let result = self.function.invoke_with_args(args)?;
        if result.data_type() != DataType::Float64 {
            return Ok(result);
        }
        let is_scalar = matches!(result, ColumnarValue::Scalar(_));
        let results = result.to_array(rows)?;
        if results.as_primitive::<Float64Type>().iter().flatten().all(f64::is_finite) {
            return Ok(result);
        }
        let kept = with_finite(&number.to_array(rows)?, &places.to_array(rows)?, &results)?;
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&kept, 0)?)),
            false => Ok(ColumnarValue::Array(kept)),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

/// The nearest whole numbers, of two the even one.
fn half_to_even(number: &ColumnarValue) -> Result<ColumnarValue> {
    let of_array = |numbers: &ArrayRef| -> Result<ArrayRef> {
        let of = numbers.data_type();
        let numbers = cast(numbers, &DataType::Float64)?;
        let whole = numbers.as_primitive::<Float64Type>();
        let whole: Float64Array = whole.unary(f64::round_ties_even);
        Ok(cast(&whole, of)?)
    };
    match number {
        ColumnarValue::Array(numbers) => Ok(ColumnarValue::Array(of_array(numbers)?)),
        ColumnarValue::Scalar(number) => {
            let whole = of_array(&number.to_array_of_size(1)?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&whole, 0)?))
        }
    }
}

/// Replaces results that are not finite: by the number itself, or by zero if a finite number is
/// rounded at a place before the point.
fn with_finite(numbers: &ArrayRef, places: &ArrayRef, results: &ArrayRef) -> Result<ArrayRef> {
    let (numbers, places) = (cast(numbers, &DataType::Float64)?, cast(places, &DataType::Int64)?);
    let numbers = numbers.as_primitive::<Float64Type>().iter();
    let places = places.as_primitive::<Int64Type>().iter();
    let results = results.as_primitive::<Float64Type>().iter();
    let of = |((number, places), result): ((Option<f64>, Option<i64>), Option<f64>)| match result {
        Some(result) if !result.is_finite() && places.is_some_and(|places| places < 0) => {
            number.map(|number| if number.is_finite() { 0.0 } else { number })
        }
        Some(result) if !result.is_finite() => number,
        result => result,
    };
    Ok(Arc::new(numbers.zip(places).zip(results).map(of).collect::<Float64Array>()))
}

//! Scalar functions of one argument.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, Expr};

/// The type of a function's single argument, which is also the type of its result.
pub fn type_of_one(function: &str, arg_types: &[DataType]) -> Result<DataType> {
    match arg_types {
        [value] => Ok(value.clone()),
        _ => internal_err!("{function} takes 1 value"),
    }
}

/// Applies a function of one argument to an array or a scalar value.
pub fn apply_to_one(
    function: &str,
    args: &[ColumnarValue],
    apply: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    match args {
        [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(apply(array)?)),
        [ColumnarValue::Scalar(scalar)] => {
            let array = apply(&scalar.to_array_of_size(1)?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
        }
        _ => internal_err!("{function} takes 1 value"),
    }
}

/// The name of a function's single argument, for a function that plans do not show.
pub fn name_of_one(function: &str, args: &[Expr]) -> Result<String> {
    match args {
        [value] => Ok(value.schema_name().to_string()),
        _ => internal_err!("{function} takes 1 value"),
    }
}

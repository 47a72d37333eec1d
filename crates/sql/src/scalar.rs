//! Scalar functions that DataFusion lacks, or whose results differ from PostgreSQL's.

mod alias;
mod bytes;
mod canonical;
mod identity;
mod round;
mod templates;
mod timezone;

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions::datetime::to_char;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF};

use alias::Renamed;
pub(crate) use bytes::BytesOfText;
pub(crate) use canonical::Canonical;
pub(crate) use identity::Apart;
pub(crate) use round::RoundToInteger;
use templates::ToChar;
use timezone::TimeZoneConversion;

/// The type of a function's single argument, which is also the type of its result.
fn type_of_one(function: &str, arg_types: &[DataType]) -> Result<DataType> {
    match arg_types {
        [value] => Ok(value.clone()),
        _ => internal_err!("{function} takes 1 value"),
    }
}

/// Applies a function of one argument to an array or a scalar value.
fn apply_to_one(
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
fn name_of_one(function: &str, args: &[Expr]) -> Result<String> {
    match args {
        [value] => Ok(value.schema_name().to_string()),
        _ => internal_err!("{function} takes 1 value"),
    }
}

/// The scalar functions of every session, in addition to DataFusion's or in place of them.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::new_from_impl(TimeZoneConversion::new())),
        Arc::new(ScalarUDF::new_from_impl(Renamed::new(to_char(), "strftime", &["date_format"]))),
        Arc::new(ScalarUDF::new_from_impl(ToChar::new())),
    ]
}

//! Conversions of arguments of functions, which may have any type.

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

/// Returns an argument as a text; `None` if it is null or its type has no text form.
pub(super) fn text(argument: &ScalarValue) -> Option<String> {
    match argument.cast_to(&DataType::Utf8) {
        Ok(ScalarValue::Utf8(text)) => text,
        _ => None,
    }
}

/// Returns an argument that is an integer or the text of one; `None` for any other.
pub(super) fn integer(argument: &ScalarValue) -> Option<i64> {
    match argument.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) => number,
        _ => None,
    }
}

/// True if an argument is true.
pub(super) fn is_true(argument: Option<&ScalarValue>) -> bool {
    argument.is_some_and(|argument| *argument == ScalarValue::Boolean(Some(true)))
}

/// Returns the items of an array argument; `None` for an argument that is not an array.
pub(super) fn items(argument: &ScalarValue) -> Option<ArrayRef> {
    match argument {
        ScalarValue::List(list) => (!list.is_null(0)).then(|| list.value(0)),
        ScalarValue::LargeList(list) => (!list.is_null(0)).then(|| list.value(0)),
        ScalarValue::FixedSizeList(list) => (!list.is_null(0)).then(|| list.value(0)),
        _ => None,
    }
}

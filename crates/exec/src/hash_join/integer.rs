//! Join keys that are integers.

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};

use crate::Result;

/// Returns true for integer types whose values fit a signed 64-bit integer: keys of these types can
/// be mapped to slots by their distance.
pub(super) fn is_integer(data_type: &DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    matches!(data_type, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32)
}

/// Casts integers to 64 bits.
pub(super) fn integers(keys: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(keys, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

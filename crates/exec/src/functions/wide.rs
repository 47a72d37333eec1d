//! State types of sums that are wider than their results.
//!
//! A sum of integers fails if and only if the total does not fit the result type, whatever the
//! order of its rows and however they are split among threads. If the state had that type, a
//! partial sum might not fit although the total does. The wide state overflows only for more rows
//! than a table can have, or for decimals that use all digits.

use datafusion::arrow::array::{ArrayData, ArrayRef, ArrowNativeTypeOp, make_array};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{
    ArrowNativeType, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, i256,
};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};

/// A native type of the states of sums.
pub(crate) trait Wide: ArrowNativeTypeOp + ArrowNativeType + From<i128> {
    /// Converts sums to an array of type `result`; `function` is named in errors.
    ///
    /// # Errors
    /// A sum that does not fit `result`.
    fn results(
        function: &str,
        sums: Vec<Self>,
        nulls: Option<NullBuffer>,
        result: &DataType,
    ) -> Result<ArrayRef>;
}

impl Wide for i128 {
    fn results(
        function: &str,
        sums: Vec<Self>,
        nulls: Option<NullBuffer>,
        result: &DataType,
    ) -> Result<ArrayRef> {
        let limit = digits(result).map(|digits| 10_i128.pow(digits));
        let fits = |sum: &i128| limit.is_none_or(|limit| sum.unsigned_abs() < limit.unsigned_abs());
        if !sums.iter().all(fits) {
            return Err(out_of_range(function, result));
        }
        match result {
            DataType::Int64 | DataType::Duration(_) | DataType::Decimal64(..) => {
                narrow::<i64>(function, &sums, nulls, result)
            }
            DataType::UInt64 => narrow::<u64>(function, &sums, nulls, result),
            DataType::Decimal32(..) => narrow::<i32>(function, &sums, nulls, result),
            DataType::Decimal128(..) => array(result, sums, nulls),
            result => internal_err!("{function} has no result of type {result}"),
        }
    }
}

impl Wide for i256 {
    fn results(
        function: &str,
        sums: Vec<Self>,
        nulls: Option<NullBuffer>,
        result: &DataType,
    ) -> Result<ArrayRef> {
        let ten = i256::from_i128(10);
        let limit = digits(result).and_then(|digits| ten.checked_pow(digits));
        let fits = |sum: &i256| limit.is_none_or(|limit| *sum < limit && *sum > -limit);
        match sums.iter().all(fits) {
            true => array(result, sums, nulls),
            false => Err(out_of_range(function, result)),
        }
    }
}

fn narrow<T: ArrowNativeType + TryFrom<i128>>(
    function: &str,
    sums: &[i128],
    nulls: Option<NullBuffer>,
    result: &DataType,
) -> Result<ArrayRef> {
    let narrow = |sum: &i128| T::try_from(*sum).map_err(|_| out_of_range(function, result));
    array(result, sums.iter().map(narrow).collect::<Result<_>>()?, nulls)
}

/// Returns the state type of sums whose result has type `result`; `None` for types whose sums are
/// DataFusion's.
pub(crate) fn state_type(result: &DataType) -> Option<DataType> {
    Some(match result {
        DataType::Int64 | DataType::UInt64 | DataType::Duration(_) => {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
        DataType::Decimal256(_, scale) => DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale),
        _ => return None,
    })
}

fn digits(result: &DataType) -> Option<u32> {
    match result {
        DataType::Decimal32(digits, _)
        | DataType::Decimal64(digits, _)
        | DataType::Decimal128(digits, _)
        | DataType::Decimal256(digits, _) => Some(u32::from(*digits)),
        _ => None,
    }
}

/// Returns the error "out of range" for a function whose result does not fit type `result`;
/// PostgreSQL's SQLSTATE 22003.
pub(crate) fn out_of_range(function: &str, result: &DataType) -> DataFusionError {
    let (name, instead) = match result {
        DataType::Int64 => ("bigint".to_owned(), "DECIMAL(38, 0)"),
        DataType::UInt64 => ("bigint unsigned".to_owned(), "DECIMAL(38, 0)"),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => {
            (format!("decimal({digits}, {scale})"), "DOUBLE, or a decimal of a smaller scale")
        }
        other => (other.to_string(), "DOUBLE"),
    };
    exec_datafusion_err!(
        "{name} out of range: the result of {function} does not fit; cast its argument to {instead}"
    )
}

/// Returns the values of an array of fixed width as `T`, which must have that width.
pub(crate) fn natives<T: ArrowNativeType>(array: &ArrayRef) -> Result<ScalarBuffer<T>> {
    if array.data_type().primitive_width() != Some(size_of::<T>()) {
        return internal_err!("an aggregate's state cannot take values of {}", array.data_type());
    }
    let data = array.to_data();
    Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}

/// Creates an array of a fixed-width type from its native values.
pub(crate) fn array<T: ArrowNativeType>(
    data_type: &DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let len = values.len();
    let buffer = ScalarBuffer::from(values).into_inner();
    let data = ArrayData::builder(data_type.clone()).len(len).add_buffer(buffer).nulls(nulls);
    Ok(make_array(data.build()?))
}

//! DataFusion's functions that create lists of a given length, such as `range` and `array_repeat`,
//! with a bound on that length.
//!
//! DataFusion allocates the elements before it accounts for them, or asks for more memory than
//! there is.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::functions_nested::{range, repeat, resize};
use datafusion::logical_expr::{ScalarFunctionArgs, ScalarUDF};

use crate::checked::{Checked, rows};

/// Maximum number of elements of one list.
pub(super) const LIST_MAX: u64 = 1 << 24;
/// Maximum bytes of the lists of a batch of rows.
pub(super) const BATCH_BYTES_MAX: u64 = 256 << 20;
/// Bytes of an element that is a number.
const NUMBER_BYTES: u64 = 8;

/// Returns the functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Checked::over(repeat::array_repeat_udf(), |name, args| refuse(name, args, Count::Times)),
        Checked::over(resize::array_resize_udf(), |name, args| refuse(name, args, Count::Length)),
    ]
}

/// Returns the functions `range` and `generate_series` of integers.
pub(super) fn series() -> [Arc<ScalarUDF>; 2] {
    [
        Checked::over(range::range_udf(), |name, args| refuse(name, args, Count::Below)),
        Checked::over(range::gen_series_udf(), |name, args| refuse(name, args, Count::Through)),
    ]
}

/// The rule by which the arguments of a call determine the number of elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// A range from the first argument to the second, exclusive, with the third as step.
    Below,
    /// A range from the first argument to the second, inclusive, with the third as step.
    Through,
    /// The second argument is the number of copies of the first.
    Times,
    /// The second argument is the length to which the first is cut or filled up with the third.
    Length,
}

/// Returns an error for lists that are too long.
fn refuse(function: &str, args: &ScalarFunctionArgs, count: Count) -> Result<()> {
    let rows = rows(args);
    let arguments = args.args.iter().map(|arg| arg.to_array(rows));
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    let numbers: Vec<_> = arguments.iter().map(integers).collect();
    let element = match count {
        Count::Below | Count::Through => NUMBER_BYTES,
        Count::Times => arguments.first().map_or(NUMBER_BYTES, element_bytes),
        Count::Length => arguments.get(2).map_or(NUMBER_BYTES, element_bytes),
    };
    let mut total = 0_u64;
    for row in 0..rows {
        let number = |at: usize| {
            let array = numbers.get(at)?.as_ref()?.as_primitive_opt::<Int64Type>()?;
            array.is_valid(row).then(|| array.value(row))
        };
        if count == Count::Length && arguments.first().is_some_and(|lists| lists.is_null(row)) {
            continue;
        }
        if let (Count::Length, Some(length @ ..0)) = (count, number(1)) {
            return exec_err!(
                "{function}: the length of a list is {length}; it cannot be negative"
            );
        }
        let elements = count.of(number, arguments.len());
        total = total.saturating_add(elements.saturating_mul(element));
        if elements > LIST_MAX || total > BATCH_BYTES_MAX {
            return exec_err!(
                "{function}: a list of {elements} elements is too long: at most {LIST_MAX} \
                 elements, and {BATCH_BYTES_MAX} bytes in a batch of rows, are possible{}",
                hint(function, count)
            );
        }
    }
    Ok(())
}

fn hint(function: &str, count: Count) -> String {
    match count {
        Count::Below | Count::Through => format!("; say FROM {function}(...) for rows"),
        Count::Times | Count::Length => String::new(),
    }
}

/// The mean bytes of a value.
pub(super) fn element_bytes(values: &ArrayRef) -> u64 {
    let bytes = values.to_data().get_slice_memory_size().unwrap_or(usize::MAX);
    let mean = bytes.div_ceil(values.len().max(1));
    u64::try_from(mean).unwrap_or(u64::MAX).max(1)
}

impl Count {
    fn of(self, number: impl Fn(usize) -> Option<i64>, arguments: usize) -> u64 {
        let inclusive = match self {
            Self::Below => false,
            Self::Through => true,
            Self::Times | Self::Length => {
                return number(1).map_or(0, |count| u64::try_from(count).unwrap_or(0));
            }
        };
        let (begin, end) = match arguments {
            1 => (Some(0), number(0)),
            _ => (number(0), number(1)),
        };
        let step = if arguments > 2 { number(2) } else { Some(1) };
        let (Some(begin), Some(end), Some(step)) = (begin, end, step) else { return 0 };
        if step == 0 || (step > 0) != (end >= begin) {
            return u64::from(inclusive);
        }
        match end.abs_diff(begin).checked_sub(u64::from(!inclusive)) {
            Some(distance) => (distance / step.unsigned_abs()).saturating_add(1),
            None => 0,
        }
    }
}

/// The values as integers, null where they are none.
fn integers(array: &ArrayRef) -> Option<ArrayRef> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    cast_with_options(array, &DataType::Int64, &options).ok()
}

//! Functions of DataFusion that make lists of a number of elements, with a bound on that number.
//!
//! DataFusion allocates the elements before it accounts for them, or asks for more memory than
//! there is.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::functions_nested::{range, repeat, resize};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// Maximum number of elements of one list.
const LIST_MAX: u64 = 1 << 24;
/// Maximum number of elements of the lists of a batch of rows.
const BATCH_MAX: u64 = 1 << 26;

/// Returns the functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let bounded = [
        (range::range_udf(), Count::Steps { inclusive: false }),
        (range::gen_series_udf(), Count::Steps { inclusive: true }),
        (repeat::array_repeat_udf(), Count::Argument),
        (resize::array_resize_udf(), Count::Argument),
    ];
    let bounded = bounded.into_iter().map(|(function, count)| Bounded { function, count });
    bounded.map(|bounded| Arc::new(ScalarUDF::new_from_impl(bounded))).collect()
}

/// The number of elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Count {
    /// From the first argument to the second, by the third.
    Steps { inclusive: bool },
    /// The second argument.
    Argument,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
    count: Count,
}

impl Bounded {
    /// Refuses lists that are too long.
    fn refuse(&self, args: &ScalarFunctionArgs) -> Result<()> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arguments = args.args.iter().map(|arg| arg.to_array(rows));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        if arguments.iter().any(|it| it.data_type().is_temporal()) {
            return Ok(());
        }
        let numbers: Vec<_> = arguments.iter().map(integers).collect();
        let mut total = 0_u64;
        for row in 0..rows {
            let number = |at: usize| {
                let array = numbers.get(at)?.as_ref()?.as_primitive_opt::<Int64Type>()?;
                array.is_valid(row).then(|| array.value(row))
            };
            let count = self.count_of(number, arguments.len());
            total = total.saturating_add(count);
            if count > LIST_MAX || total > BATCH_MAX {
                return exec_err!(
                    "{}: a list of {count} elements is too long: at most {LIST_MAX}, and \
                     {BATCH_MAX} in a batch of rows; say FROM {}(...) for rows",
                    self.function.name(),
                    self.function.name()
                );
            }
        }
        Ok(())
    }

    fn count_of(&self, number: impl Fn(usize) -> Option<i64>, arguments: usize) -> u64 {
        let Count::Steps { inclusive } = self.count else {
            return number(1).map_or(0, |count| u64::try_from(count).unwrap_or(0));
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

impl ScalarUDFImpl for Bounded {
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.refuse(&args)?;
        self.function.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

//! `date_trunc`.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// DataFusion's function, called with columns only: it truncates constants before 1970 to a
/// millisecond or microsecond towards 1970. Moments far from 1970 are truncated as those that are
/// whole cycles of 400 years nearer.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Truncate {
    function: Arc<ScalarUDF>,
}

/// Returns the function.
pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Truncate { function: datetime::date_trunc() }))
}

impl ScalarUDFImpl for Truncate {
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

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(moment) = args.args.get_mut(1) else {
            return self.function.invoke_with_args(args);
        };
        let is_scalar = matches!(moment, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let array = moment.to_array(rows)?;
        let cycles = cycles(&array);
        *moment = ColumnarValue::Array(match &cycles {
            Some(cycles) => shifted(&array, cycles, i64::checked_sub)?,
            None => array,
        });
        let args = ScalarFunctionArgs { number_rows: rows, ..args };
        let truncated = self.function.invoke_with_args(args)?.into_array(rows)?;
        let truncated = match &cycles {
            Some(cycles) => shifted(&truncated, cycles, i64::checked_add)?,
            None => truncated,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&truncated, 0)?),
            false => ColumnarValue::Array(truncated),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

/// Microseconds of 400 years, after which days, weeks and months repeat.
const CYCLE_MICROS: i64 = 146_097 * 86_400 * 1_000_000;

/// Greatest distance from 1970 in microseconds of a moment that DataFusion truncates: it does so in
/// nanoseconds.
const NEAR_MICROS: u64 = 8_500_000_000_000_000;

/// The microseconds by which each moment is moved to be near 1970, in whole cycles of 400 years;
/// `None` if all are near.
fn cycles(moments: &ArrayRef) -> Option<Vec<i64>> {
    let moments = moments.as_primitive_opt::<TimestampMicrosecondType>()?;
    let is_far = |micros: i64| micros.unsigned_abs() > NEAR_MICROS;
    if !moments.iter().flatten().any(is_far) {
        return None;
    }
    let cycle = |micros: i64| match is_far(micros) {
        true => micros.saturating_add(CYCLE_MICROS / 2).div_euclid(CYCLE_MICROS) * CYCLE_MICROS,
        false => 0,
    };
    Some(moments.iter().map(|micros| micros.map_or(0, cycle)).collect())
}

/// The moments moved by `by`.
///
/// # Errors
/// A moment that 64 bits do not represent.
fn shifted(
    moments: &ArrayRef,
    by: &[i64],
    shift: impl Fn(i64, i64) -> Option<i64>,
) -> Result<ArrayRef> {
    let values = moments.as_primitive::<TimestampMicrosecondType>();
    let moved = values.iter().zip(by).map(|(micros, by)| match micros {
        None => Ok(None),
        Some(micros) => shift(micros, *by).map(Some).ok_or_else(|| {
            exec_datafusion_err!("date_trunc: {micros} microseconds since 1970 are out of range")
        }),
    });
    let moved = moved.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(moved.with_data_type(moments.data_type().clone())))
}

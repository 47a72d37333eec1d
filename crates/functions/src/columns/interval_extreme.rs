//! `greatest` and `least` of intervals, by their durations.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::interval::duration;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Returns an expression for the argument with the greatest duration, or with the least if not
/// `is_greatest`; nulls are ignored.
#[must_use]
pub fn interval_extreme(args: Vec<Expr>, is_greatest: bool) -> Expr {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(Extreme { is_greatest, signature }).call(args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    is_greatest: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Extreme {
    fn name(&self) -> &str {
        if self.is_greatest { "greatest_interval" } else { "least_interval" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| Ok(cast(&arg.to_array(rows)?, &INTERVAL)?));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let columns: Vec<_> =
            columns.iter().map(|it| it.as_primitive::<IntervalMonthDayNanoType>()).collect();
        let extreme = |row: usize| {
            let values = columns.iter().filter(|it| it.is_valid(row)).map(|it| it.value(row));
            match self.is_greatest {
                true => values.max_by_key(|value| duration(*value)),
                false => values.min_by_key(|value| duration(*value)),
            }
        };
        let values: PrimitiveArray<IntervalMonthDayNanoType> = (0..rows).map(extreme).collect();
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(values))),
        }
    }
}

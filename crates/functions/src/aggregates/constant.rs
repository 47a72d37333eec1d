//! Arguments that must be constants.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::logical_expr::function::AccumulatorArgs;

/// Returns the constant value of argument number `argument`, from 0, of `function`.
///
/// # Errors
/// If the argument depends on the row, or is missing.
pub(super) fn constant(
    args: &AccumulatorArgs<'_>,
    function: &str,
    argument: usize,
) -> Result<ScalarValue> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let value = args.exprs.get(argument).and_then(|expr| {
        let value = expr.evaluate(&row).ok()?.into_array(1).ok()?;
        ScalarValue::try_from_array(&value, 0).ok()
    });
    let place = argument + 1;
    value.ok_or_else(|| {
        plan_datafusion_err!("argument {place} of {function} must be a constant, not a column")
    })
}

//! The value of a subquery that must return at most one row.

use std::sync::Arc;

use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::compute::max;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns its first argument, the first value of a subquery, and fails if the second, the number
/// of its rows, is more than one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SingleRow {
    signature: Signature,
}

impl SingleRow {
    pub(crate) fn function() -> Arc<ScalarUDF> {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Self { signature }))
    }
}

impl ScalarUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first() {
            Some(kind) => Ok(kind.clone()),
            None => internal_err!("{} has two arguments", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut args = args.args.into_iter();
        let (Some(value), Some(rows)) = (args.next(), args.next()) else {
            return internal_err!("{} has two arguments", self.name());
        };
        let rows = rows.into_array(1)?;
        let Some(rows) = rows.as_primitive_opt::<Int64Type>() else {
            return internal_err!("{} counts rows by {}", self.name(), rows.data_type());
        };
        match max(rows) {
            Some(2..) => {
                exec_err!("more than one row returned by a subquery used as an expression")
            }
            _ => Ok(value),
        }
    }
}

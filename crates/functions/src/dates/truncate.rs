//! `date_trunc`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::datetime;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// DataFusion's function, called with columns only: it truncates constants before 1970 to a
/// millisecond or microsecond towards 1970.
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
        let Some(ColumnarValue::Scalar(
            moment @ ScalarValue::TimestampNanosecond(..)
            | moment @ ScalarValue::TimestampMicrosecond(..),
        )) = args.args.get(1)
        else {
            return self.function.invoke_with_args(args);
        };
        let moment = ColumnarValue::Array(moment.to_array_of_size(1)?);
        if let Some(argument) = args.args.get_mut(1) {
            *argument = moment;
        }
        let args = ScalarFunctionArgs { number_rows: 1, ..args };
        let truncated = self.function.invoke_with_args(args)?.into_array(1)?;
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&truncated, 0)?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

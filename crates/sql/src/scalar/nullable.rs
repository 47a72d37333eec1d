//! The identity function with a nullable result, for arguments that are declared as not nullable,
//! and for those of which no interval must be derived.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use terrace_table::unary::{name_of_one, type_of_one};

/// The identity function. In a plan, its result column has the name of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nullable {
    signature: Signature,
}

impl Nullable {
    /// Wraps an expression that can be null although its field is declared as not nullable, or from
    /// which DataFusion derives wrong intervals.
    pub(crate) fn of(expr: Expr) -> Expr {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { signature }).call(vec![expr])
    }
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &str {
        "nullable"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_of_one(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        type_of_one(self.name(), arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => {
                let field = Field::new(self.name(), field.data_type().clone(), true)
                    .with_metadata(field.metadata().clone());
                Ok(Arc::new(field))
            }
            _ => internal_err!("{} takes 1 value", self.name()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(value) if args.args.is_empty() => Ok(value),
            _ => internal_err!("{} takes 1 value", self.name()),
        }
    }
}

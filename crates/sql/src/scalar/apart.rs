//! A function that returns its argument, and keeps rules from looking into it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{name_of_one, type_of_one};

/// Its argument. Its name in a plan is its argument's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Apart {
    signature: Signature,
}

impl Apart {
    /// An expression that rules do not join with those beside it.
    pub(crate) fn of(expr: Expr) -> Expr {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { signature }).call(vec![expr])
    }

    /// True for an expression of [`Apart::of`].
    pub(crate) fn is(expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Self>())
    }

    /// The expression that [`Apart::of`] was given; any other one as it is.
    pub(crate) fn argument(expr: Expr) -> Expr {
        match expr {
            Expr::ScalarFunction(mut call)
                if call.func.inner().is::<Self>() && call.args.len() == 1 =>
            {
                call.args.swap_remove(0)
            }
            expr => expr,
        }
    }
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &str {
        "apart"
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

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(value) if args.args.is_empty() => Ok(value),
            _ => internal_err!("{} takes 1 value", self.name()),
        }
    }
}

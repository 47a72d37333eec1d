//! The identity function, which hides its argument from optimizer rules.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_table::unary::{name_of_one, type_of_one};

/// The identity function. In a plan, its result column has the name of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    signature: Signature,
}

impl Identity {
    /// Wraps an expression, so that rules do not merge it with its neighbors.
    pub(crate) fn of(expr: Expr) -> Expr {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { signature }).call(vec![expr])
    }

    /// True for an expression wrapped by [`Identity::of`].
    pub(crate) fn is(expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Self>())
    }

    /// Unwraps an expression of [`Identity::of`]; leaves any other unchanged.
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

impl ScalarUDFImpl for Identity {
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

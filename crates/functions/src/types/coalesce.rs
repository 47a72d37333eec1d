//! `coalesce`, in which texts beside dates, times or lists are converted to their type.
//!
//! DataFusion finds no common type of a date or list and a text, and takes texts for the result of
//! `ifnull`. A literal has no type of its own: `coalesce(day, '2024-01-01')` is a date. Literals
//! beside lists are made lists before types are coerced.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions::core::coalesce;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

/// The first value that is not null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    stock: Arc<ScalarUDF>,
    signature: Signature,
    aliases: Vec<String>,
}

/// Returns the function.
pub(super) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let aliases = ["ifnull", "nvl"].map(str::to_owned).to_vec();
    Arc::new(ScalarUDF::new_from_impl(Coalesce { stock: coalesce(), signature, aliases }))
}

/// The type of dates or times if all arguments have it or are texts or nulls; else `None`.
fn moment(given: &[DataType]) -> Option<&DataType> {
    let moment = given.iter().find(|of| of.is_temporal())?;
    let fits = |of: &DataType| of == moment || of.is_string() || of.is_null();
    given.iter().all(fits).then_some(moment)
}

/// The type of lists if all arguments have it or are texts or nulls; else `None`.
fn list(given: &[DataType]) -> Option<&DataType> {
    let list = given.iter().find(|of| matches!(of, DataType::List(_)))?;
    let fits = |of: &DataType| of == list || of.is_string() || of.is_null();
    given.iter().all(fits).then_some(list)
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match moment(given).or_else(|| list(given)) {
            Some(of) => Ok(vec![of.clone(); given.len()]),
            None => self.stock.coerce_types(given),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.stock.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.stock.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.stock.simplify(args, info)
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.stock.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.stock.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }
}

//! Scalar functions of this crate as functions of DataFusion.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// A scalar function: its names, its types and its evaluation.
pub(crate) trait Scalar: fmt::Debug + Send + Sync + 'static {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Returns the other names.
    fn aliases(&self) -> &'static [&'static str];

    /// Returns the volatility: immutable, stable within a statement, or volatile.
    fn volatility(&self) -> Volatility {
        Volatility::Immutable
    }

    /// Returns the types that arguments are cast to.
    ///
    /// # Errors
    /// If the function does not take arguments of these types.
    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>>;

    /// Returns the field of the result. `given` are the types of the coerced arguments;
    /// `constants` has for each argument its value if that is constant.
    ///
    /// # Errors
    /// As [`Scalar::coerce`].
    fn field(&self, given: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<Field>;

    /// Returns the result's `field`, with the extension type that follows from the fields of the
    /// arguments, such as JSONB.
    fn marked(&self, field: Field, _arguments: &[FieldRef]) -> Field {
        field
    }

    /// Returns the column name of a call, if it differs from `name(arguments)`.
    fn column_name(&self, _arguments: &[Expr]) -> Option<String> {
        None
    }

    /// Simplifies a call when a statement is planned.
    ///
    /// # Errors
    /// The function's own.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(args))
    }

    /// Returns the order of the results, by those of the arguments.
    ///
    /// # Errors
    /// If the orders of the arguments contradict each other.
    fn order(&self, _arguments: &[ExprProperties]) -> Result<SortProperties> {
        Ok(SortProperties::Unordered)
    }

    /// Returns the results of `rows` rows; that is 1 if all arguments are constants.
    ///
    /// # Errors
    /// The function's own.
    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef>;
}

/// Returns the function of DataFusion for a function of this crate.
pub(crate) fn function(scalar: impl Scalar) -> Arc<ScalarUDF> {
    let aliases = scalar.aliases().iter().map(|&alias| alias.to_owned()).collect();
    let signature = Signature::user_defined(scalar.volatility());
    Arc::new(ScalarUDF::new_from_impl(Adapter { scalar, aliases, signature }))
}

#[derive(Debug)]
struct Adapter<S> {
    scalar: S,
    aliases: Vec<String>,
    signature: Signature,
}

impl<S: Scalar> PartialEq for Adapter<S> {
    fn eq(&self, other: &Self) -> bool {
        self.scalar.name() == other.scalar.name()
    }
}

impl<S: Scalar> Eq for Adapter<S> {}

impl<S: Scalar> Hash for Adapter<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scalar.name().hash(state);
    }
}

impl<S: Scalar> ScalarUDFImpl for Adapter<S> {
    fn name(&self) -> &str {
        self.scalar.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The planner replaces errors of this function by one that lists signatures, so wrong types
    /// are refused by [`Self::return_field_from_args`].
    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(self.scalar.coerce(given).unwrap_or_else(|_| given.to_vec()))
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(self.scalar.field(given, &[])?.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given: Vec<_> = args.arg_fields.iter().map(|it| it.data_type().clone()).collect();
        let field = self.scalar.field(&given, args.scalar_arguments)?;
        let field = self.scalar.marked(field, args.arg_fields);
        Ok(Arc::new(field.with_name(self.name())))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match self.scalar.column_name(args) {
            Some(name) => Ok(name),
            None => {
                let args = args.iter().map(|arg| arg.schema_name().to_string());
                Ok(format!("{}({})", self.name(), args.collect::<Vec<_>>().join(",")))
            }
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.scalar.order(inputs)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.scalar.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let are_constants = !args.args.is_empty() && args.args.iter().all(is_scalar);
        let rows = if are_constants { 1 } else { args.number_rows };
        let result = self.scalar.run(&args, rows)?;
        match (are_constants, result.len()) {
            (false, _) => Ok(ColumnarValue::Array(result)),
            (true, 1) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            (true, rows) => internal_err!("{} returned {rows} rows", self.name()),
        }
    }
}

/// Returns the arguments as arrays of `rows` values.
///
/// # Errors
/// If a constant cannot be repeated.
pub(crate) fn columns(args: &ScalarFunctionArgs, rows: usize) -> Result<Vec<ArrayRef>> {
    args.args.iter().map(|arg| arg.to_array(rows)).collect()
}

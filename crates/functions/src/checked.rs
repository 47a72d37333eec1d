//! Functions of DataFusion whose calls are checked, changed or answered before they are evaluated,
//! or whose results are verified.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// Check of the arguments of a call, before evaluation; the text is the function's name.
pub(crate) type Check = fn(&str, &ScalarFunctionArgs) -> Result<()>;

/// Change of the arguments of a call, before evaluation.
pub(crate) type Change = fn(ScalarFunctionArgs) -> Result<ScalarFunctionArgs>;

/// Check of the result of a call, which it returns; it receives the function's name, the arguments
/// and the result.
pub(crate) type Verify = fn(&str, &[ColumnarValue], ColumnarValue) -> Result<ColumnarValue>;

/// Evaluation of a call instead of the function; `None` for calls that the function evaluates.
pub type Instead = fn(&ScalarFunctionArgs) -> Result<Option<ColumnarValue>>;

/// A step before or after the evaluation of a call.
#[derive(Clone, Copy, Debug)]
enum Step {
    Check(Check),
    Change(Change),
    Verify(Verify),
    Instead(Instead),
}

/// Returns a function that replaces `function`: `evaluate` is called first, and `function` only if
/// that returns `None`.
#[must_use]
pub fn instead(function: Arc<ScalarUDF>, evaluate: Instead) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Checked { function, step: Step::Instead(evaluate) }))
}

/// A function with a step before or after it. The function is not simplified, since that would
/// create calls without the step.
#[derive(Debug)]
pub(crate) struct Checked {
    function: Arc<ScalarUDF>,
    step: Step,
}

impl Checked {
    /// Creates a function that replaces `function` and checks the arguments before.
    pub(crate) fn over(function: Arc<ScalarUDF>, check: Check) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { function, step: Step::Check(check) }))
    }

    /// Creates the function that replaces `function` and changes its arguments.
    pub(crate) fn changing(function: Arc<ScalarUDF>, change: Change) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { function, step: Step::Change(change) }))
    }

    /// Creates the function that replaces `function` and verifies its results.
    pub(crate) fn verifying(function: Arc<ScalarUDF>, verify: Verify) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { function, step: Step::Verify(verify) }))
    }
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.function.schema_name(args)
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

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let function = Arc::new(self.function.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self { function, step: self.step }))
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.function.evaluate_bounds(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let args = match self.step {
            Step::Check(check) => {
                check(self.function.name(), &args)?;
                args
            }
            Step::Change(change) => change(args)?,
            Step::Instead(evaluate) => match evaluate(&args)? {
                Some(result) => return Ok(result),
                None => args,
            },
            Step::Verify(verify) => {
                let given = args.args.clone();
                let result = self.function.invoke_with_args(args)?;
                return verify(self.function.name(), &given, result);
            }
        };
        self.function.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

/// Returns the number of rows of a call: 1 if all arguments are constants.
pub(crate) fn rows(args: &ScalarFunctionArgs) -> usize {
    let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    if is_scalar { 1 } else { args.number_rows }
}

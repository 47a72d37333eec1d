//! Window frames with EXCLUDE.
//!
//! ```text
//! sum(x) OVER (PARTITION BY g ORDER BY k ROWS ... EXCLUDE TIES)
//! sum(x) OVER (PARTITION BY "window frame excludes"('ties'), g ORDER BY k ROWS ...)
//! ```
//!
//! The parser has no EXCLUDE, so the tokens become the second form. After types are coerced, an
//! analyzer rule takes the mark out of the keys, and replaces the function by one over frames that
//! exclude rows; a function that has no frame remains.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{NullTreatment, ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, Window, WindowFunctionDefinition, WindowUDF,
};
use datafusion::optimizer::AnalyzerRule;
use terrace_exec::window::exclude::{ExcludingAggregate, ExcludingValue, Exclusion, Pick};

use super::guards::has_any;

/// The function that marks an exclusion.
pub(super) const MARK: &str = "window frame excludes";

/// A function whose call among the keys of a window marks an exclusion until the rule removes it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    signature: Signature,
}

/// The function that marks an exclusion.
pub(super) fn mark() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(Mark { signature }))
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        MARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a window frame with EXCLUDE was not planned")
    }
}

/// The analyzer rule.
#[derive(Debug)]
pub(super) struct WindowExclusion;

impl AnalyzerRule for WindowExclusion {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        of_windows(plan, |expr, _| excluding(expr))
    }

    fn name(&self) -> &str {
        "window_exclusion"
    }
}

/// Rewrites the functions of the windows of a plan, over the columns of the windows' inputs, and
/// keeps the names of their results.
///
/// # Errors
/// Errors of `rewrite`.
pub(super) fn of_windows(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    if !has_any(&plan, |node| Ok(matches!(node, LogicalPlan::Window(_))))? {
        return Ok(plan);
    }
    let mut is_changed = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(Window { input, .. }) = &node else {
            // The columns of a window below may be null now.
            return match is_changed {
                true => Ok(Transformed::yes(node.recompute_schema()?)),
                false => Ok(Transformed::no(node)),
            };
        };
        let columns = Arc::clone(input.schema());
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| rewrite(expr, &columns))?;
            Ok(if expr.transformed { expr.update_data(|it| name.restore(it)) } else { expr })
        })?;
        is_changed |= node.transformed;
        if node.transformed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    })?;
    Ok(plan.data)
}

/// Replaces a function with a marked window.
fn excluding(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = expr else { return Ok(Transformed::no(expr)) };
    let keys = &mut window.params.partition_by;
    let Some(place) = keys.iter().position(|key| exclusion_of(key).is_some()) else {
        return Ok(Transformed::no(Expr::WindowFunction(window)));
    };
    let Some(exclusion) = exclusion_of(&keys.remove(place)) else {
        return internal_err!("a window frame has lost its EXCLUDE");
    };
    Ok(Transformed::yes(Expr::WindowFunction(Box::new(with(*window, exclusion)))))
}

/// The function over frames with an exclusion.
fn with(mut window: WindowFunction, exclusion: Exclusion) -> WindowFunction {
    let params = &mut window.params;
    let function = match &window.fun {
        WindowFunctionDefinition::AggregateUDF(function) => {
            let filter = params.filter.take();
            let ignores_nulls = params.null_treatment.take() == Some(NullTreatment::IgnoreNulls);
            let function = ExcludingAggregate::new(Arc::clone(function), exclusion)
                .with_distinct(std::mem::take(&mut params.distinct))
                .with_ignored_nulls(ignores_nulls)
                .with_filter(filter.is_some());
            params.args.extend(filter.map(|filter| *filter));
            WindowUDF::new_from_impl(function)
        }
        WindowFunctionDefinition::WindowUDF(function) => match Pick::of_name(function.name()) {
            Some(pick) => WindowUDF::new_from_impl(ExcludingValue::new(pick, exclusion)),
            // The other functions, such as row_number, are computed over the partition.
            None => return window,
        },
    };
    window.fun = WindowFunctionDefinition::WindowUDF(Arc::new(function));
    window
}

/// The exclusion that a key marks; `None` for any other key.
fn exclusion_of(key: &Expr) -> Option<Exclusion> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = key else { return None };
    match args.as_slice() {
        [Expr::Literal(ScalarValue::Utf8(Some(name)), _)] if func.name() == MARK => {
            Exclusion::of_name(name)
        }
        _ => None,
    }
}

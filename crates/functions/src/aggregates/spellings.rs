//! Aliases of aggregate functions, and functions composed of others.
//!
//! The names are registered as functions, so that a statement may use them, and replaced when a
//! statement is planned, so that no accumulator knows them. A column keeps the name that the
//! statement spells.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::functions::math::expr_fn::{exp, ln, sqrt};
use datafusion::logical_expr::expr::{
    AggregateFunction, NullTreatment, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawWindowExpr,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility,
    WindowFunctionDefinition, WindowUDF, cast, lit, when,
};

/// Other spellings, and the functions that they denote.
const SAME: &[(&str, &str)] = &[
    ("list", "array_agg"),
    ("group_concat", "string_agg"),
    ("listagg", "string_agg"),
    ("first", "first_value"),
    ("arbitrary", "first_value"),
    ("last", "last_value"),
    ("every", "bool_and"),
    ("variance", "var"),
    ("sum_no_overflow", "sum"),
    ("approx_count_distinct", "approx_distinct"),
    ("approx_quantile", "approx_percentile_cont"),
    ("grouping_id", "grouping"),
];

/// Functions composed of others.
const COMPOSED: &[&str] = &[
    "count_if",
    "countif",
    "geomean",
    "geometric_mean",
    "sem",
    "favg",
    "weighted_avg",
    "wavg",
    "regr_r2",
];

/// Functions that the planner calls in place of others.
const TARGETS: &[&str] = &[
    "array_agg",
    "string_agg",
    "first_value",
    "last_value",
    "bool_and",
    "var",
    "sum",
    "count",
    "avg",
    "fsum",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "var_pop",
    "approx_distinct",
    "approx_percentile_cont",
    "grouping",
    "max_n",
    "min_n",
];

/// Returns the aliases and composed functions as functions without accumulators, which the planner
/// replaces.
pub(super) fn names() -> impl Iterator<Item = Arc<AggregateUDF>> {
    let same = SAME.iter().map(|(name, _)| *name);
    same.chain(COMPOSED.iter().copied()).map(|name| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Spelling { name, signature }))
    })
}

/// A name of a function that is replaced when a statement is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spelling {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for Spelling {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{} can be called in SQL only", self.name)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        plan_err!("{} can be called in SQL only", self.name)
    }

    fn supports_null_handling_clause(&self) -> bool {
        true
    }
}

/// Planner of calls of aggregate functions by other names.
#[derive(Debug)]
pub struct Spellings {
    aggregates: HashMap<&'static str, Arc<AggregateUDF>>,
    windows: HashMap<&'static str, Arc<WindowUDF>>,
}

impl Spellings {
    /// Creates the planner of a session whose functions are registered.
    ///
    /// # Errors
    /// If a function that another one is composed of is not registered.
    pub fn new(registry: &dyn FunctionRegistry) -> Result<Self> {
        let aggregates = TARGETS.iter().map(|name| Ok((*name, registry.udaf(name)?)));
        let windows = ["first_value", "last_value"];
        let windows = windows.into_iter().map(|name| Ok((name, registry.udwf(name)?)));
        Ok(Self {
            aggregates: aggregates.collect::<Result<_>>()?,
            windows: windows.collect::<Result<_>>()?,
        })
    }

    fn aggregate(&self, name: &str) -> Result<Arc<AggregateUDF>> {
        match self.aggregates.get(name) {
            Some(function) => Ok(Arc::clone(function)),
            None => plan_err!("there is no aggregate function {name}"),
        }
    }

    /// Returns the function for a window call, by its name in [`TARGETS`].
    fn window(&self, name: &str) -> Result<WindowFunctionDefinition> {
        Ok(match self.windows.get(name) {
            Some(function) => WindowFunctionDefinition::WindowUDF(Arc::clone(function)),
            None => WindowFunctionDefinition::AggregateUDF(self.aggregate(name)?),
        })
    }
}

impl ExprPlanner for Spellings {
    fn plan_aggregate(&self, expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        let name = expr.func.name().to_owned();
        let first_of_order = name == "any_value" && !expr.order_by.is_empty();
        let call = |target: &str, args: Vec<Expr>| {
            let function = self.aggregate(target)?;
            refuse_null_treatment(&name, &function, expr.null_treatment.as_ref())?;
            let nulls = match first_of_order {
                true => Some(NullTreatment::IgnoreNulls),
                false => expr.null_treatment,
            };
            Ok(Expr::AggregateFunction(AggregateFunction::new_udf(
                function,
                args,
                expr.distinct,
                expr.filter.clone(),
                expr.order_by.clone(),
                nulls,
            )))
        };
        let spelled = match first_of_order {
            true => Some(call("first_value", expr.args.clone())?),
            false => spelled(&name, &expr.args, expr.distinct, &call)?,
        };
        let Some(spelled) = spelled else { return Ok(PlannerResult::Original(expr)) };
        let RawAggregateExpr { func, args, distinct, filter, order_by, null_treatment } = expr;
        let original =
            AggregateFunction::new_udf(func, args, distinct, filter, order_by, null_treatment);
        Ok(PlannerResult::Planned(named(spelled, &Expr::AggregateFunction(original))))
    }

    fn plan_window(&self, expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        let WindowFunctionDefinition::AggregateUDF(function) = &expr.func_def else {
            return Ok(PlannerResult::Original(expr));
        };
        let name = function.name();
        let over = |fun: WindowFunctionDefinition, args: Vec<Expr>| {
            let params = WindowFunctionParams {
                args,
                partition_by: expr.partition_by.clone(),
                order_by: expr.order_by.clone(),
                window_frame: expr.window_frame.clone(),
                filter: expr.filter.clone(),
                null_treatment: expr.null_treatment,
                distinct: expr.distinct,
            };
            Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
        };
        let call = |target: &str, args: Vec<Expr>| Ok(over(self.window(target)?, args));
        let Some(spelled) = spelled(name, &expr.args, expr.distinct, &call)? else {
            return Ok(PlannerResult::Original(expr));
        };
        let original = over(expr.func_def.clone(), expr.args.clone());
        Ok(PlannerResult::Planned(named(spelled, &original)))
    }
}

/// Returns an expression under the name of another.
fn named(expr: Expr, original: &Expr) -> Expr {
    NamePreserver::new_for_projection().save(original).restore(expr)
}

fn refuse_null_treatment(
    name: &str,
    function: &AggregateUDF,
    treatment: Option<&NullTreatment>,
) -> Result<()> {
    match treatment {
        Some(treatment) if !function.supports_null_handling_clause() => {
            plan_err!("{name} has no {treatment}; leave it out")
        }
        _ => Ok(()),
    }
}

/// Returns the expression that replaces a call of the function `name`; `None` if the call stays.
/// `call` builds a call of another function with the same clauses.
fn spelled(
    name: &str,
    args: &[Expr],
    distinct: bool,
    call: &dyn Fn(&str, Vec<Expr>) -> Result<Expr>,
) -> Result<Option<Expr>> {
    if COMPOSED.contains(&name) {
        return composed(name, args, distinct, call).map(Some);
    }
    let target = SAME.iter().find(|(spelling, _)| *spelling == name).map(|(_, target)| *target);
    let mut args = args.to_vec();
    let target = match (target.unwrap_or(name), args.as_slice()) {
        // DuckDB's separator.
        ("string_agg", [_]) => {
            args.push(lit(","));
            "string_agg"
        }
        ("max", [_, _]) => "max_n",
        ("min", [_, _]) => "min_n",
        _ => match target {
            Some(target) => target,
            None => return Ok(None),
        },
    };
    call(target, args).map(Some)
}

fn composed(
    name: &str,
    args: &[Expr],
    distinct: bool,
    call: &dyn Fn(&str, Vec<Expr>) -> Result<Expr>,
) -> Result<Expr> {
    if distinct && matches!(name, "count_if" | "countif" | "weighted_avg" | "wavg") {
        return plan_err!("{name} has no DISTINCT; select distinct rows in a subquery");
    }
    Ok(match (name, args) {
        ("count_if" | "countif", [condition]) => {
            let is_false = condition.clone().is_false();
            let one = when(condition.clone(), lit(1_i64)).when(is_false, lit(0_i64)).end()?;
            call("sum", vec![one])?
        }
        ("regr_r2", [y, x]) => determination(y, x, call)?,
        ("geomean" | "geometric_mean", [number]) => exp(call("avg", vec![ln(number.clone())])?),
        ("sem", [number]) => {
            let variance = call("var_pop", vec![number.clone()])?;
            sqrt(variance / count(call, number)?)
        }
        ("favg", [number]) => call("fsum", vec![number.clone()])? / count(call, number)?,
        ("weighted_avg" | "wavg", [number, weight]) => {
            let is_null = number.clone().is_null();
            let counted = when(is_null, lit(0_f64)).otherwise(weight.clone())?;
            // By the factor the product is DOUBLE. A cast would leave the column its name, which
            // another sum of the statement may have.
            let product = lit(1_f64) * number.clone() * weight.clone();
            call("sum", vec![product])? / call("sum", vec![counted])?
        }
        ("regr_r2", _) => {
            return plan_err!("{name} takes two numbers, not {} arguments", args.len());
        }
        ("weighted_avg" | "wavg", _) => {
            return plan_err!("{name} takes a number and a weight, not {} arguments", args.len());
        }
        _ => return plan_err!("{name} takes one argument, not {}", args.len()),
    })
}

/// Returns the coefficient of determination; where `y` is constant it is 1, as in PostgreSQL.
fn determination(
    y: &Expr,
    x: &Expr,
    call: &dyn Fn(&str, Vec<Expr>) -> Result<Expr>,
) -> Result<Expr> {
    let of = |target| call(target, vec![y.clone(), x.clone()]);
    let (sxx, syy, sxy) = (of("regr_sxx")?, of("regr_syy")?, of("regr_sxy")?);
    let zero = || lit(0_f64);
    let quotient = sxy.clone() * sxy / (sxx.clone() * syy.clone());
    when(sxx.eq(zero()), lit(ScalarValue::Float64(None)))
        .when(syy.eq(zero()), lit(1_f64))
        .otherwise(quotient)
}

/// Returns the count of values that are not null as DOUBLE; null if it is zero.
fn count(call: &dyn Fn(&str, Vec<Expr>) -> Result<Expr>, number: &Expr) -> Result<Expr> {
    let count = cast(call("count", vec![number.clone()])?, DataType::Float64);
    when(count.clone().gt(lit(0_f64)), count).end()
}

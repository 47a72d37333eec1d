//! An analyzer rule that makes floating-point numbers compare equal if they are equal in SQL.
//!
//! Arrow compares floating-point numbers by the total order of IEEE 754, which distinguishes values
//! that are equal in SQL: the two zeros, and NaNs of either sign, of which the negative ones sort
//! below all numbers. Processors return a negative NaN for `0.0 / 0.0` and for infinity minus
//! infinity.
//!
//! - Expressions that produce floating-point numbers return the canonical NaN: arithmetic,
//!   mathematical functions, casts of texts, aggregate and window functions. Tables hold no other
//!   NaN either.
//! - Keys of sorts, of windows, of ordered aggregates and DISTINCT ON, and the values of IN lists
//!   and of CASE with an operand, have no negative zero. DataFusion's comparisons handle zeros
//!   themselves; groups and joins handle them in their operators.
//!
//! - Floating-point numbers of a file are read with the canonical NaN. This also keeps filters over
//!   them away from Parquet statistics, which leave NaN out: a row group whose greatest number is
//!   50 may contain a NaN, which is above 100.
//!
//! The rule runs after types have been coerced, and before the optimizer folds constants.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{
    AggregateFunction, InList, ScalarFunction, Sort as SortExpr, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{DistinctOn, Projection};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Distinct, Expr, ExprSchemable as _, LogicalPlan, Operator, TryCast, when,
};
use datafusion::optimizer::AnalyzerRule;
use terrace_exec::arithmetic::CheckedArithmetic;
use terrace_exec::floats::has_floats;

use super::short_circuit::is_division;
use crate::file_tables::is_decoded_by_datafusion;
use crate::scalar::Canonical;

/// Aggregate and window functions that return one of their arguments, which is already canonical.
const SELECTING: &[&str] = &[
    "min",
    "max",
    "first_value",
    "last_value",
    "nth_value",
    "any_value",
    "lag",
    "lead",
    "array_agg",
];

/// Names of DataFusion's mathematical functions.
static MATHEMATICS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = datafusion::functions::math::functions();
    functions.iter().map(|function| function.name().to_owned()).collect()
});

/// Analyzer rule that canonicalizes NaNs and the zeros of keys.
#[derive(Debug)]
pub(super) struct CanonicalFloats;

impl AnalyzerRule for CanonicalFloats {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "canonical_floats"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::TableScan(scan) = &plan
        && let Ok(table) = source_as_provider(&scan.source)
        && is_decoded_by_datafusion(table.as_ref())
    {
        return with_values(plan, |_| true);
    }
    let inputs = plan.inputs();
    let mut fields = inputs.iter().flat_map(|input| input.schema().fields());
    if !fields.any(|field| has_floats(field.data_type())) && !mentions_floats(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let inputs = merge_schema(&inputs);
    let schema = match &plan {
        LogicalPlan::TableScan(scan) => {
            let name = scan.table_name.clone();
            DFSchema::try_from_qualified_schema(name, &scan.source.schema())?
        }
        _ => inputs,
    };
    let plan = of_expressions(plan, &schema)?;
    let plan = plan.transform_data(|plan| of_sort_keys(plan, &schema))?;
    plan.transform_data(of_results)
}

fn of_expressions(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let is_sort = matches!(&plan, LogicalPlan::Sort(_) | LogicalPlan::Distinct(_));
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = rewrite(expr, schema)?;
        // Sorts name no columns.
        if is_sort { Ok(expr) } else { Ok(expr.update_data(|expr| name.restore(expr))) }
    })
}

/// Rewrites an expression over rows of `schema`, with coerced types, so that equal floats compare
/// equal.
pub(crate) fn rewrite(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| of_expression(expr, schema))
}

fn of_expression(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_arithmetic(op) => {
            let left = Box::new(Canonical::argument_of_value(*left));
            let right = Box::new(Canonical::argument_of_value(*right));
            computed(Expr::BinaryExpr(BinaryExpr { left, op, right }), schema)
        }
        Expr::Negative(operand) => {
            let operand = Box::new(Canonical::argument_of_value(*operand));
            computed(Expr::Negative(operand), schema)
        }
        Expr::ScalarFunction(call)
            if MATHEMATICS.contains(call.func.name()) || is_quotient(&call) =>
        {
            let ScalarFunction { func, args } = call;
            let args = args.into_iter().map(Canonical::argument_of_value).collect();
            computed(Expr::ScalarFunction(ScalarFunction { func, args }), schema)
        }
        Expr::ScalarFunction(call) if call.func.name() == "nullif" => of_nullif(call, schema),
        // A text may denote a negative NaN.
        Expr::Cast(_) | Expr::TryCast(_) if is_of_text(&expr, schema)? => computed(expr, schema),
        Expr::InList(InList { expr, list, negated }) if is_float(&expr, schema)? => {
            let expr = Box::new(Canonical::key(*expr));
            let list = list.into_iter().map(Canonical::key).collect();
            Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
        }
        Expr::Case(mut case) => {
            let is_keyed = match &case.expr {
                Some(operand) => is_float(operand, schema)?,
                None => false,
            };
            if !is_keyed {
                return Ok(Transformed::no(Expr::Case(case)));
            }
            case.expr = case.expr.map(|operand| Box::new(Canonical::key(*operand)));
            for (when, _) in &mut case.when_then_expr {
                **when = Canonical::key(std::mem::take(when));
            }
            Ok(Transformed::yes(Expr::Case(case)))
        }
        Expr::AggregateFunction(call) => of_aggregate(call, schema),
        Expr::WindowFunction(call) => of_window(*call, schema),
        other => Ok(Transformed::no(other)),
    }
}

/// Rewrites `nullif(a, b)` as a CASE, whose comparison treats the zeros as equal.
fn of_nullif(call: ScalarFunction, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    match call.args.as_slice() {
        [value, other] if is_float(value, schema)? && !value.is_volatile() => {
            let null = Expr::Literal(ScalarValue::try_from(&value.get_type(schema)?)?, None);
            let is_equal = value.clone().eq(other.clone());
            Ok(Transformed::yes(when(is_equal, null).otherwise(value.clone())?))
        }
        _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
    }
}

/// True for a cast of a text to a floating-point number.
fn is_of_text(cast: &Expr, schema: &dyn ExprSchema) -> Result<bool> {
    match cast {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            Ok(field.data_type().is_floating() && expr.get_type(schema)?.is_string())
        }
        _ => Ok(false),
    }
}

fn is_arithmetic(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// True for a call of checked division or remainder.
fn is_quotient(call: &ScalarFunction) -> bool {
    let checked = call.func.inner().downcast_ref::<CheckedArithmetic>();
    checked.is_some_and(|it| is_division(it.operator()))
}

fn is_float(expr: &Expr, schema: &dyn ExprSchema) -> Result<bool> {
    Ok(has_floats(&expr.get_type(schema)?))
}

/// Wraps an expression that computes floating-point numbers, so that its NaNs are canonical.
fn computed(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    let is_float = is_float(&expr, schema)?;
    Ok(if is_float { Transformed::yes(Canonical::value(expr)) } else { Transformed::no(expr) })
}

/// Rewrites the ORDER BY keys of an aggregate function. One with DISTINCT or WITHIN GROUP sorts its
/// values itself.
fn of_aggregate(mut call: AggregateFunction, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    let sorts_itself = call.params.distinct || call.func.supports_within_group_clause();
    let is_changed = !sorts_itself && of_order(&mut call.params.order_by, schema)?;
    let expr = Expr::AggregateFunction(call);
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

fn of_window(mut call: WindowFunction, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    let mut is_changed = of_order(&mut call.params.order_by, schema)?;
    for key in &mut call.params.partition_by {
        is_changed |= to_key(key, schema)?;
    }
    let expr = Expr::from(call);
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

fn of_order(order: &mut [SortExpr], schema: &dyn ExprSchema) -> Result<bool> {
    let mut is_changed = false;
    for key in order {
        is_changed |= to_key(&mut key.expr, schema)?;
    }
    Ok(is_changed)
}

/// Rewrites an expression as a sort key; true if it is a float.
fn to_key(expr: &mut Expr, schema: &dyn ExprSchema) -> Result<bool> {
    if !is_float(expr, schema)? {
        return Ok(false);
    }
    let key = Canonical::key(Canonical::argument_of_value(std::mem::take(expr)));
    *expr = key;
    Ok(true)
}

/// Rewrites the sort keys of a node.
fn of_sort_keys(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let (plan, is_changed) = match plan {
        LogicalPlan::Sort(mut sort) => {
            let is_changed = of_order(&mut sort.expr, schema)?;
            (LogicalPlan::Sort(sort), is_changed)
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            let DistinctOn { mut on_expr, select_expr, mut sort_expr, input, .. } = distinct;
            let mut is_changed = false;
            for key in &mut on_expr {
                is_changed |= to_key(key, schema)?;
            }
            if let Some(order) = &mut sort_expr {
                is_changed |= of_order(order, schema)?;
            }
            let distinct = DistinctOn::try_new(on_expr, select_expr, sort_expr, input)?;
            (LogicalPlan::Distinct(Distinct::On(distinct)), is_changed)
        }
        plan => return Ok(Transformed::no(plan)),
    };
    Ok(if is_changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

/// Makes the results of aggregate and window functions canonical, in a projection above their node.
fn of_results(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let first = match &plan {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.schema.fields().len() - aggregate.aggr_expr.len()
        }
        LogicalPlan::Window(window) => window.input.schema().fields().len(),
        _ => return Ok(Transformed::no(plan)),
    };
    let calls = match &plan {
        LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
        LogicalPlan::Window(window) => &window.window_expr,
        _ => return Ok(Transformed::no(plan)),
    };
    let computes = |index: usize| {
        let call = index.checked_sub(first).and_then(|call| calls.get(call));
        call.is_some_and(|call| !is_selecting(call))
    };
    let computed: Vec<_> = (0..plan.schema().fields().len()).map(computes).collect();
    with_values(plan, |index| computed[index])
}

/// Adds a projection over the node that makes NaNs canonical in the floating-point columns for
/// whose index `is_odd` returns true.
fn with_values(
    plan: LogicalPlan,
    is_odd: impl Fn(usize) -> bool,
) -> Result<Transformed<LogicalPlan>> {
    let mut is_changed = false;
    let columns = plan.schema().iter().enumerate().map(|(index, (qualifier, field))| {
        let column = Expr::from((qualifier, field));
        if !has_floats(field.data_type()) || !is_odd(index) {
            return column;
        }
        is_changed = true;
        Canonical::value(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    if !is_changed {
        return Ok(Transformed::no(plan));
    }
    let projection = Projection::try_new(columns, Arc::new(plan))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

fn is_selecting(call: &Expr) -> bool {
    let name = match call {
        Expr::Alias(alias) => return is_selecting(&alias.expr),
        Expr::AggregateFunction(call) => call.func.name().to_owned(),
        Expr::WindowFunction(call) => call.fun.name().to_owned(),
        _ => return true,
    };
    SELECTING.contains(&name.as_str())
}

/// True if expressions of a node may return floating-point numbers though its inputs have none.
fn mentions_floats(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|part| {
            Ok(match part {
                Expr::Literal(value, _) => has_floats(&value.data_type()),
                Expr::Cast(cast) => has_floats(cast.field.data_type()),
                Expr::TryCast(cast) => has_floats(cast.field.data_type()),
                Expr::ScalarFunction(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
                    true
                }
                _ => false,
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

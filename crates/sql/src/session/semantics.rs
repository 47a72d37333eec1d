//! An analyzer rule that gives expressions PostgreSQL's semantics where DataFusion's differ.
//!
//! - Sums, differences, products and negatives of integers and decimals fail on overflow.
//! - Quotients of decimals are rounded to 16 digits after the point or more.
//! - Divisions of floating-point numbers by zero fail.
//! - Casts of floating-point numbers and decimals to integers round, as do those of timestamps to
//!   whole seconds or milliseconds.
//! - Casts to floating-point numbers fail on overflow.
//! - Casts of texts to bytes parse them: `'\x00ff'`.
//! - Casts of timestamps to text have a blank between date and time: `2024-06-01 12:00:00`.
//! - Casts of lists, structs and maps to text are DuckDB's: `[1, NULL]`, `{'a': 1}`.
//! - Timestamps with time zone become dates, times and their parts in the session's time zone.
//! - `lag` and `lead` with a null offset return null.
//! - A null in VALUES for a column that is NOT NULL is refused by the table.
//!
//! The rule runs after DataFusion has coerced types, so that it sees the final types, and before
//! the optimizer, so that constants are folded with the same semantics.

pub(super) mod ranks;
pub(super) mod zones;

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable as _, LogicalPlan, Operator, TryCast,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use terrace_exec::arithmetic::{CheckedArithmetic, CheckedNegation};
use terrace_functions::columns::{has_moment_text, moment_text};
use terrace_functions::nested::nested_text;

use super::short_circuit::{is_division, is_divisor};
use crate::scalar::{BytesOfText, InFloatRange, MomentOfText, RoundToInteger, RoundToUnit};

/// The analyzer rule.
#[derive(Debug)]
pub(super) struct PostgresSemantics;

impl AnalyzerRule for PostgresSemantics {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = with_nullable_values(plan)?;
        let zone = zones::of(options);
        let quotients = Cell::new(false);
        let plan =
            plan.transform_up_with_subqueries(|plan| with_semantics(plan, zone, &quotients))?;
        match quotients.get() {
            // Expressions above them were coerced to the operator's type.
            true => TypeCoercion::new().analyze(plan.data, options),
            false => Ok(plan.data),
        }
    }

    fn name(&self) -> &str {
        "postgres_semantics"
    }
}

/// Makes all columns of VALUES nullable. DataFusion gives the VALUES of an INSERT the nullability
/// of the table, and its error names a column of VALUES; the table's error names its own column.
fn with_nullable_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_changed = false;
    let changed = plan.transform_up(|node| match node {
        LogicalPlan::Values(Values { schema, values })
            if schema.fields().iter().any(|field| !field.is_nullable()) =>
        {
            is_changed = true;
            let fields = schema.fields().iter();
            let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
            let schema = Arc::new(DFSchema::try_from(Schema::new(fields.collect::<Vec<_>>()))?);
            Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values })))
        }
        node if is_changed => Ok(Transformed::yes(node.recompute_schema()?)),
        node => Ok(Transformed::no(node)),
    });
    Ok(changed?.data)
}

/// Gives the expressions of a node PostgreSQL's semantics. Sets `quotients` if a division of
/// decimals was replaced, so that the types of the expressions above it change.
fn with_semantics(
    plan: LogicalPlan,
    zone: &str,
    quotients: &Cell<bool>,
) -> Result<Transformed<LogicalPlan>> {
    if !has_any(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let mut schema = match &plan {
        LogicalPlan::TableScan(scan) => {
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?
        }
        plan => merge_schema(&plan.inputs()),
    };
    if schema.fields().is_empty() {
        // A node without inputs may still refer to its own columns.
        schema.merge(plan.schema());
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        if !may_differ(&expr)? {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        let rewritten = rewrite_with(expr, &schema, zone, quotients)?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    match rewritten.transformed {
        true => rewritten.map_data(LogicalPlan::recompute_schema),
        false => Ok(rewritten),
    }
}

/// True if a node has an expression whose semantics may differ. The schema and the names that a
/// rewrite needs take longer than this.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = may_differ(expr)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// True if [`rewrite`] may change an expression.
fn may_differ(expr: &Expr) -> Result<bool> {
    expr.exists(|part| {
        Ok(match part {
            Expr::BinaryExpr(binary) => is_checked(binary.op),
            Expr::WindowFunction(call) => is_shift_by_null(call),
            Expr::ScalarFunction(call) => zones::is_local(call.name()),
            part => matches!(part, Expr::Negative(_) | Expr::Cast(_) | Expr::TryCast(_)),
        })
    })
}

/// True for an operator that [`CheckedArithmetic`] may replace.
fn is_checked(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// True for a quotient of decimals, which
/// [`DecimalQuotients`](super::quotients::DecimalQuotients) replaces where the types of its
/// operands are known when it is planned.
fn is_decimal_quotient(op: Operator, of: &DataType) -> bool {
    op == Operator::Divide && of.is_decimal()
}

/// True for a quotient or remainder of floating-point numbers by a constant other than zero.
fn is_quotient_by_constant(op: Operator, of: &DataType, divisor: &Expr) -> bool {
    of.is_floating() && is_division(op) && is_divisor(divisor)
}

/// Gives an expression over rows of `schema`, with coerced types, PostgreSQL's semantics in a
/// session's time zone.
pub(crate) fn rewrite(
    expr: Expr,
    schema: &dyn ExprSchema,
    zone: &str,
) -> Result<Transformed<Expr>> {
    rewrite_with(expr, schema, zone, &Cell::new(false))
}

fn rewrite_with(
    expr: Expr,
    schema: &dyn ExprSchema,
    zone: &str,
    quotients: &Cell<bool>,
) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_checked(op) => {
            let types = (type_of(&left, schema)?, type_of(&right, schema)?);
            let operands = ((&*left, &types.0), (&*right, &types.1));
            if let Some(moved) = zones::moved(operands.0, op, operands.1, zone)? {
                return Ok(Transformed::yes(moved));
            }
            let function = CheckedArithmetic::of(op, &types.0, &types.1);
            Ok(match function.filter(|_| !is_quotient_by_constant(op, &types.0, &right)) {
                Some(function) => {
                    quotients.set(quotients.get() || is_decimal_quotient(op, &types.0));
                    Transformed::yes(function.call(vec![*left, *right]))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            })
        }
        Expr::Negative(operand) if type_of(&operand, schema)?.is_signed_integer() => {
            Ok(Transformed::yes(CheckedNegation::function().call(vec![*operand])))
        }
        Expr::Cast(Cast { expr, field }) => {
            let operand = operand(*expr, field.data_type(), schema, (zone, false))?;
            Ok(operand.update_data(|expr| Expr::Cast(Cast { expr: Box::new(expr), field })))
        }
        Expr::TryCast(TryCast { expr, field }) => {
            let operand = operand(*expr, field.data_type(), schema, (zone, true))?;
            Ok(operand.update_data(|expr| Expr::TryCast(TryCast { expr: Box::new(expr), field })))
        }
        Expr::WindowFunction(mut call) if is_shift_by_null(&call) => {
            let value = ScalarValue::try_new_null(&type_of(&call.params.args[0], schema)?)?;
            call.params.args = vec![Expr::Literal(value, None)];
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        Expr::ScalarFunction(call) if zones::is_local(call.name()) => in_zone(call, schema, zone),
        other => Ok(Transformed::no(other)),
    })
}

/// Converts the arguments of a call that are timestamps with time zone to the session's time zone;
/// a result that is one is converted back to the zone of the argument.
fn in_zone(
    mut call: ScalarFunction,
    schema: &dyn ExprSchema,
    zone: &str,
) -> Result<Transformed<Expr>> {
    let mut own = None;
    for arg in &mut call.args {
        let of = type_of(arg, schema)?;
        if let Some(local) = zones::in_zone(arg, &of, zone) {
            *arg = local;
            own = Some(of);
        }
    }
    let Some(own) = own else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
    let call = Expr::ScalarFunction(call);
    Ok(Transformed::yes(match (type_of(&call, schema)?, own) {
        (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, own)) => {
            Expr::Cast(Cast::new(Box::new(call), DataType::Timestamp(unit, own)))
        }
        _ => call,
    }))
}

/// True for `lag(x, NULL)` and `lead(x, NULL)`, whose offset DataFusion takes as zero.
fn is_shift_by_null(call: &WindowFunction) -> bool {
    let offset = call.params.args.get(1);
    let is_null = matches!(offset, Some(Expr::Literal(value, _)) if value.is_null());
    is_null && matches!(call.fun.name(), "lag" | "lead")
}

/// The type of an expression. DataFusion would build the name of every function below it, which
/// takes time quadratic in the length of a sum, for each of its terms.
pub(super) fn type_of(expr: &Expr, schema: &dyn ExprSchema) -> Result<DataType> {
    if let Expr::ScalarFunction(call) = expr
        && let Some(checked) = call.func.inner().downcast_ref::<CheckedArithmetic>()
        && let [left, right] = call.args.as_slice()
    {
        let (left, right) = (type_of(left, schema)?, type_of(right, schema)?);
        return checked.result_type(&left, &right);
    }
    expr.get_type(schema)
}

/// True for a call that [`operand`] made.
fn is_operand(call: &ScalarFunction) -> bool {
    let function = call.func.inner();
    function.is::<RoundToInteger>()
        || function.is::<RoundToUnit>()
        || function.is::<InFloatRange>()
        || function.is::<MomentOfText>()
}

/// The operand of a cast to `to`: rounded if the cast would truncate its fraction, and parsed if it
/// is a text cast to bytes or a moment; of instants, in the session's time zone.
fn operand(
    operand: Expr,
    to: &DataType,
    schema: &dyn ExprSchema,
    (zone, is_lenient): (&str, bool),
) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(function) = &operand
        && is_operand(function)
    {
        return Ok(Transformed::no(operand));
    }
    let from = type_of(&operand, schema)?;
    let function = if RoundToInteger::is_needed(&from, to) {
        RoundToInteger::function()
    } else if BytesOfText::is_needed(&from, to) {
        BytesOfText::function(is_lenient)
    } else if InFloatRange::is_needed(&from, to) {
        InFloatRange::function(to, is_lenient)
    } else if MomentOfText::is_needed(&from, to) {
        let text = Arc::new(MomentOfText::function(to, is_lenient)).call(vec![operand]);
        let of_text = |text: Expr, to: &DataType| {
            zones::operand(&text, &DataType::Utf8View, to, zone, is_lenient).unwrap_or(text)
        };
        return Ok(Transformed::yes(match to {
            // Arrow drops the rest of a second.
            DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, own) => {
                let exact = DataType::Timestamp(TimeUnit::Microsecond, own.clone());
                let moment = zones::cast(of_text(text, &exact), exact, is_lenient);
                Arc::new(RoundToUnit::function(to)).call(vec![moment])
            }
            _ => of_text(text, to),
        }));
    } else if to.is_string() && has_moment_text(&from) {
        let moment = zones::in_zone(&operand, &from, zone).unwrap_or(operand);
        return Ok(Transformed::yes(moment_text(moment)));
    } else if to.is_string() && from.is_nested() {
        return Ok(Transformed::yes(nested_text(operand, zone)));
    } else {
        let instant = zones::operand(&operand, &from, to, zone, is_lenient);
        let operand = instant.map_or_else(|| Transformed::no(operand), Transformed::yes);
        if !RoundToUnit::is_needed(&from, to) {
            return Ok(operand);
        }
        let rounded = Arc::new(RoundToUnit::function(to)).call(vec![operand.data]);
        return Ok(Transformed::yes(rounded));
    };
    Ok(Transformed::yes(Arc::new(function).call(vec![operand])))
}

//! An analyzer rule that gives expressions PostgreSQL's semantics where DataFusion's differ.
//!
//! - Sums, differences, products and negatives of integers and decimals fail on overflow.
//! - Quotients of decimals are rounded to 16 digits after the point or more.
//! - Casts of floating-point numbers and decimals to integers round.
//! - Casts of texts to bytes parse them: `'\x00ff'`.
//! - `lag` and `lead` with a null offset return null.
//! - A null in VALUES for a column that is NOT NULL is refused by the table.
//!
//! The rule runs after DataFusion has coerced types, so that it sees the final types, and before
//! the optimizer, so that constants are folded with the same semantics.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable as _, LogicalPlan, Operator, TryCast,
};
use datafusion::optimizer::AnalyzerRule;
use terrace_exec::arithmetic::{CheckedArithmetic, CheckedNegation};

use crate::scalar::{BytesOfText, MomentOfText, RoundToInteger};

/// The analyzer rule.
#[derive(Debug)]
pub(super) struct PostgresSemantics;

impl AnalyzerRule for PostgresSemantics {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = with_nullable_values(plan)?;
        Ok(plan.transform_up_with_subqueries(with_semantics)?.data)
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

fn with_semantics(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
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
        Ok(rewrite(expr, &schema)?.update_data(|expr| name.restore(expr)))
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
            part => matches!(part, Expr::Negative(_) | Expr::Cast(_) | Expr::TryCast(_)),
        })
    })
}

/// True for an operator that [`CheckedArithmetic`] may replace.
fn is_checked(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide)
}

/// Gives an expression over rows of `schema`, with coerced types, PostgreSQL's semantics.
pub(crate) fn rewrite(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_checked(op) => {
            let types = (type_of(&left, schema)?, type_of(&right, schema)?);
            Ok(match CheckedArithmetic::of(op, &types.0, &types.1) {
                Some(function) => Transformed::yes(function.call(vec![*left, *right])),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            })
        }
        Expr::Negative(operand) if type_of(&operand, schema)?.is_signed_integer() => {
            Ok(Transformed::yes(CheckedNegation::function().call(vec![*operand])))
        }
        Expr::Cast(Cast { expr, field }) => {
            let operand = operand(*expr, field.data_type(), schema, false)?;
            Ok(operand.update_data(|expr| Expr::Cast(Cast { expr: Box::new(expr), field })))
        }
        Expr::TryCast(TryCast { expr, field }) => {
            let operand = operand(*expr, field.data_type(), schema, true)?;
            Ok(operand.update_data(|expr| Expr::TryCast(TryCast { expr: Box::new(expr), field })))
        }
        Expr::WindowFunction(mut call) if is_shift_by_null(&call) => {
            let value = ScalarValue::try_new_null(&type_of(&call.params.args[0], schema)?)?;
            call.params.args = vec![Expr::Literal(value, None)];
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// True for `lag(x, NULL)` and `lead(x, NULL)`, whose offset DataFusion takes as zero.
fn is_shift_by_null(call: &WindowFunction) -> bool {
    let offset = call.params.args.get(1);
    let is_null = matches!(offset, Some(Expr::Literal(value, _)) if value.is_null());
    is_null && matches!(call.fun.name(), "lag" | "lead")
}

/// The type of an expression. DataFusion would build the name of every function below it, which
/// takes time quadratic in the length of a sum, for each of its terms.
fn type_of(expr: &Expr, schema: &dyn ExprSchema) -> Result<DataType> {
    if let Expr::ScalarFunction(call) = expr
        && let Some(checked) = call.func.inner().downcast_ref::<CheckedArithmetic>()
        && let [left, right] = call.args.as_slice()
    {
        let (left, right) = (type_of(left, schema)?, type_of(right, schema)?);
        return checked.result_type(&left, &right);
    }
    expr.get_type(schema)
}

/// The operand of a cast to `to`: rounded if the cast would truncate its fraction, and parsed if it
/// is a text cast to bytes or a moment.
fn operand(
    operand: Expr,
    to: &DataType,
    schema: &dyn ExprSchema,
    is_lenient: bool,
) -> Result<Transformed<Expr>> {
    let is_done = matches!(&operand, Expr::ScalarFunction(function)
        if function.func.inner().is::<RoundToInteger>()
            || function.func.inner().is::<MomentOfText>());
    if is_done {
        return Ok(Transformed::no(operand));
    }
    let from = type_of(&operand, schema)?;
    let function = if RoundToInteger::is_needed(&from, to) {
        RoundToInteger::function()
    } else if BytesOfText::is_needed(&from, to) {
        BytesOfText::function(is_lenient)
    } else if MomentOfText::is_needed(&from, to) {
        MomentOfText::function(to)
    } else {
        return Ok(Transformed::no(operand));
    };
    Ok(Transformed::yes(Arc::new(function).call(vec![operand])))
}

//! Conditions that keep others from failing: `y <> 0 AND x / y > 1`.
//!
//! DataFusion computes both operands of AND and OR for all rows of a batch, unless the first one
//! decides nearly all of them. The second one then fails for rows that the first one excludes. It
//! also makes conjunctions of `CASE WHEN y <> 0 THEN x / y > 1 END`, and puts the filter of an
//! outer query before that of its subquery. After optimization an operand that may fail becomes a
//! branch of a CASE, which is computed for the rows that reach it:
//!
//! ```text
//! y <> 0 AND x / y > 1
//!   ->  y <> 0 AND CASE WHEN y <> 0 IS NOT FALSE THEN x / y > 1 ELSE false END
//! ```
//!
//! The first operand stays outside too, where scans find it. Operands that may fail are divisions,
//! casts of texts, and functions that are not defined for all numbers.

use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, Expr, ExprSchemable as _, LogicalPlan, Operator, binary_expr, lit,
};
use terrace_exec::arithmetic::CheckedArithmetic;

use super::guards;

/// Functions that fail for some of the values of their types.
const PARTIAL: &[&str] = &[
    "acos",
    "acosh",
    "as_column_type",
    "asin",
    "atanh",
    "bytes_of_text",
    "div",
    "divide",
    "exp",
    "factorial",
    "fdiv",
    "fmod",
    "interval_of_text",
    "ln",
    "log",
    "log10",
    "log2",
    "mod",
    "moment_of_text",
    "power",
    "sqrt",
    "text_arrays",
];

/// Returns a plan whose conditions keep later ones from failing; `None` if there are none to keep.
///
/// # Errors
/// If an expression does not fit its node.
pub(super) fn with_guards(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if !guards::has_any(plan, has_guard)? {
        return Ok(None);
    }
    Ok(Some(plan.clone().transform_up_with_subqueries(of_node)?.data))
}

/// True for a node with an operand of AND or OR that may fail.
fn has_guard(plan: &LogicalPlan) -> Result<bool> {
    if matches!(plan, LogicalPlan::TableScan(_)) || !has_guarded(plan, None)? {
        return Ok(false);
    }
    has_guarded(plan, Some(&merge_schema(&plan.inputs())))
}

/// As [`has_guard`]; without a schema, true for operands that may fail by their types.
fn has_guarded(plan: &LogicalPlan, schema: Option<&DFSchema>) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = is_guarded(expr, schema)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// True for an expression with an operand of AND or OR that may fail.
fn is_guarded(expr: &Expr, schema: Option<&DFSchema>) -> Result<bool> {
    expr.exists(|part| Ok(is_logic(part) && may_fail(part, schema)?))
}

fn is_logic(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }))
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_guard(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let is_condition = matches!(&plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(guarded(expr, &schema, is_condition)?)))
    })
}

/// Guards the operands within an expression; those of a condition may change places.
fn guarded(expr: Expr, schema: &DFSchema, is_condition: bool) -> Result<Expr> {
    if !is_guarded(&expr, Some(schema))? {
        return Ok(expr);
    }
    let op = match &expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) if is_logic(&expr) => *op,
        _ => {
            let guarded = |part| Ok(Transformed::yes(guarded(part, schema, false)?));
            return Ok(expr.map_children(guarded)?.data);
        }
    };
    let is_conjunction = is_condition && op == Operator::And;
    let mut parts = Vec::new();
    for operand in operands(expr, op) {
        let fails = may_fail(&operand, Some(schema))?;
        parts.push((guarded(operand, schema, false)?, fails));
    }
    if is_conjunction {
        parts.sort_by_key(|(_, fails)| *fails);
    }
    Ok(chained(parts, op, is_conjunction))
}

/// The operands of a chain of operators, in order.
fn operands(chain: Expr, of: Operator) -> Vec<Expr> {
    let (mut operands, mut open) = (Vec::new(), vec![chain]);
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op == of => {
                open.extend([*right, *left]);
            }
            expr => operands.push(expr),
        }
    }
    operands
}

/// The chain of operands, each with true if it may fail. Those that may are computed for the rows
/// that the ones before do not decide.
fn chained(parts: Vec<(Expr, bool)>, op: Operator, is_conjunction: bool) -> Expr {
    // Operands that cannot fail stand together.
    let mut runs: Vec<(Vec<Expr>, bool)> = Vec::new();
    for (part, fails) in parts {
        match runs.last_mut() {
            Some((run, false)) if !fails => run.push(part),
            _ => runs.push((vec![part], fails)),
        }
    }
    let mut rest: Option<(Expr, bool)> = None;
    while let Some((run, fails)) = runs.pop() {
        let run = balanced(run, op);
        rest = Some(match rest {
            None => (run, fails),
            Some((rest, true)) if !is_single(&run) => {
                (binary_expr(run.clone(), op, reached(run, op, rest)), true)
            }
            // In a condition the unknown is false.
            Some((rest, true)) if is_conjunction => (case(run, rest, false), true),
            Some((rest, later)) => (binary_expr(run, op, rest), fails || later),
        });
    }
    rest.map_or_else(|| lit(op == Operator::And), |(chain, _)| chain)
}

/// A chain of operands whose depth is the logarithm of their number.
fn balanced(mut operands: Vec<Expr>, op: Operator) -> Expr {
    let right = operands.split_off(operands.len() / 2);
    match (operands.is_empty(), right) {
        (true, mut right) => right.pop().unwrap_or_default(),
        (false, right) => binary_expr(balanced(operands, op), op, balanced(right, op)),
    }
}

/// True for an operand that must not be computed twice.
fn is_single(operand: &Expr) -> bool {
    let is_query = |part: &Expr| {
        matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        )
    };
    operand.is_volatile() || operand.exists(|part| Ok(is_query(part))).unwrap_or(true)
}

/// The rest of a chain, computed for the rows that the operand before does not decide.
fn reached(operand: Expr, op: Operator, rest: Expr) -> Expr {
    match op {
        Operator::Or => case(Expr::IsNotTrue(Box::new(operand)), rest, true),
        _ => case(Expr::IsNotFalse(Box::new(operand)), rest, false),
    }
}

fn case(when: Expr, then: Expr, otherwise: bool) -> Expr {
    let branches = vec![(Box::new(when), Box::new(then))];
    Expr::Case(Case::new(None, branches, Some(Box::new(lit(otherwise)))))
}

/// True for an expression that may fail; without a schema, casts may have any operand. A CASE
/// guards its branches itself.
fn may_fail(expr: &Expr, schema: Option<&DFSchema>) -> Result<bool> {
    let mut fails = false;
    expr.apply(|part| {
        fails = match part {
            Expr::Case(_) => return Ok(TreeNodeRecursion::Jump),
            Expr::BinaryExpr(BinaryExpr { op, right, .. }) => {
                is_division(*op) && !is_divisor(right)
            }
            Expr::ScalarFunction(call) => match arithmetic(call) {
                Some(checked) => {
                    is_division(checked.operator()) && !call.args.get(1).is_some_and(is_divisor)
                }
                None => PARTIAL.contains(&call.name()),
            },
            Expr::Cast(Cast { expr: value, field }) if !field.data_type().is_string() => {
                match (value.as_ref(), schema) {
                    (Expr::Literal(..), _) => false,
                    (value, Some(schema)) => value.get_type(schema).is_ok_and(|of| of.is_string()),
                    (_, None) => true,
                }
            }
            _ => false,
        };
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

fn arithmetic(call: &ScalarFunction) -> Option<&CheckedArithmetic> {
    call.func.inner().downcast_ref::<CheckedArithmetic>()
}

fn is_division(op: Operator) -> bool {
    matches!(op, Operator::Divide | Operator::Modulo)
}

/// True for a number other than zero.
fn is_divisor(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            let zero = ScalarValue::new_zero(&value.data_type());
            !value.is_null() && zero.is_ok_and(|zero| *value != zero)
        }
        Expr::Cast(Cast { expr, .. }) => is_divisor(expr),
        _ => false,
    }
}

//! Guards for operands of AND and OR that may fail: in `y <> 0 AND x / y > 1`, no division by zero.
//!
//! DataFusion computes both operands of AND and OR for all rows of a batch, unless the first one
//! decides nearly all of them. The second one then fails for rows that the first one excludes. It
//! also makes conjunctions of `CASE WHEN y <> 0 THEN x / y > 1 END`, and puts the filter of an
//! outer query before that of its subquery. After optimization an operand that may fail becomes a
//! branch of a CASE, which is computed for the rows that reach it:
//!
//! ```text
//! y <> 0 AND x / y > 1
//!   ->  y <> 0 AND CASE WHEN (y <> 0) IS FALSE THEN false ELSE x / y > 1 END
//! y = 0 OR x / y > 1
//!   ->  y = 0 OR CASE WHEN y = 0 THEN true ELSE x / y > 1 END
//! ```
//!
//! The operands that cannot fail stay outside too, where scans find them. Operands that may fail
//! are divisions, casts of texts, and functions that are not defined for all numbers.

use datafusion::common::tree_node::{
    Transformed, TreeNode as _, TreeNodeRecursion, TreeNodeVisitor,
};
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

/// Maximum nesting of operands that are guarded: each may be computed twice by the one around it.
const DEPTH_MAX: usize = 6;

/// Guards the operands of AND and OR that may fail in all nodes of a plan; `None` if it has none.
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
    let mut guards = Guards { schema, depths: vec![0], found: false };
    expr.visit(&mut guards)?;
    Ok(guards.found)
}

/// Search for an operand of AND or OR that may fail. One pass: chains may be long and not balanced.
struct Guards<'a> {
    schema: Option<&'a DFSchema>,
    /// Number of ANDs and ORs around a part, outside of the CASEs around it and within each.
    depths: Vec<usize>,
    found: bool,
}

impl<'n> TreeNodeVisitor<'n> for Guards<'_> {
    type Node = Expr;

    fn f_down(&mut self, part: &'n Expr) -> Result<TreeNodeRecursion> {
        if matches!(part, Expr::Case(_)) {
            self.depths.push(0);
        }
        let is_operand = match self.depths.last_mut() {
            Some(depth) => {
                *depth += usize::from(is_logic(part));
                *depth > 0
            }
            None => false,
        };
        self.found = is_operand && fails(part, self.schema);
        Ok(if self.found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    }

    fn f_up(&mut self, part: &'n Expr) -> Result<TreeNodeRecursion> {
        if matches!(part, Expr::Case(_)) {
            self.depths.pop();
        } else if let Some(depth) = self.depths.last_mut() {
            *depth -= usize::from(is_logic(part));
        }
        Ok(TreeNodeRecursion::Continue)
    }
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
    // The keys of a join are values: their unknown is not false.
    let condition = match &plan {
        LogicalPlan::Filter(filter) => Some(filter.predicate.clone()),
        LogicalPlan::Join(join) => join.filter.clone(),
        _ => None,
    };
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let is_condition = condition.as_ref() == Some(&expr);
        Ok(Transformed::yes(name.restore(guarded_in(expr, &schema, is_condition, 0)?)))
    })
}

/// Guards the operands within an expression over rows of `schema`.
///
/// # Errors
/// If the expression does not fit the schema.
pub(super) fn guarded(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    guarded_in(expr, schema, false, 0)
}

/// Guards the operands within an expression that is itself below `depth` guarded operands. If
/// `is_condition`, operands may change places, and unknown counts as false.
fn guarded_in(expr: Expr, schema: &DFSchema, is_condition: bool, depth: usize) -> Result<Expr> {
    if depth == DEPTH_MAX || !is_guarded(&expr, Some(schema))? {
        return Ok(expr);
    }
    let op = match &expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) if is_logic(&expr) => *op,
        _ => {
            let guarded = |part| Ok(Transformed::yes(guarded_in(part, schema, false, depth)?));
            return Ok(expr.map_children(guarded)?.data);
        }
    };
    let mut parts = Vec::new();
    for operand in operands(expr, op) {
        let kind = Kind::of(&operand, schema)?;
        parts.push((guarded_in(operand, schema, is_condition, depth + 1)?, kind));
    }
    if is_condition && op == Operator::And {
        parts.sort_by_key(|(_, kind)| *kind);
    }
    Ok(chained(parts, op, is_condition))
}

/// Kinds of operands, in the order that a condition computes them in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Safe,
    /// Must not be computed twice.
    Volatile,
    MayFail,
}

impl Kind {
    fn of(operand: &Expr, schema: &DFSchema) -> Result<Self> {
        Ok(match may_fail(operand, schema)? {
            true => Self::MayFail,
            false if operand.is_volatile() => Self::Volatile,
            false => Self::Safe,
        })
    }
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

/// The chain of operands. Those that may fail are computed for the rows that the ones before do not
/// decide: each is a branch of one CASE, whose depth does not grow with their number.
fn chained(mut parts: Vec<(Expr, Kind)>, op: Operator, is_condition: bool) -> Expr {
    let exprs = |parts: Vec<(Expr, Kind)>| parts.into_iter().map(|(expr, _)| expr).collect();
    // To tell the unknown from false, operands are computed twice.
    let is_chain = !is_condition && parts.iter().any(|(expr, _)| expr.is_volatile());
    let last = parts.iter().rposition(|(_, kind)| *kind == Kind::MayFail);
    let Some(last) = last.filter(|_| !is_chain) else { return balanced(exprs(parts), op) };
    let first = parts.iter().position(|(_, kind)| *kind != Kind::Safe).unwrap_or(last);
    let mut rest = parts.split_off(first);
    let safe = (!parts.is_empty()).then(|| balanced(exprs(parts), op));
    let before: Vec<Expr> = rest[..last - first].iter().map(|(expr, _)| expr.clone()).collect();
    if is_condition {
        rest.drain(..last - first);
    }
    let rest = balanced(exprs(rest), op);
    let decides = |operand: Expr| match op {
        Operator::Or => operand,
        _ if is_condition => Expr::IsNotTrue(Box::new(operand)),
        _ => Expr::IsFalse(Box::new(operand)),
    };
    let branches: Vec<_> = safe
        .iter()
        .cloned()
        .chain(before)
        .map(|operand| (Box::new(decides(operand)), Box::new(lit(op == Operator::Or))))
        .collect();
    let rest = match branches.is_empty() {
        true => rest,
        false => Expr::Case(Case::new(None, branches, Some(Box::new(rest)))),
    };
    match safe {
        Some(safe) => binary_expr(safe, op, rest),
        None => rest,
    }
}

/// A chain of operands whose depth is the logarithm of their number.
fn balanced(mut operands: Vec<Expr>, op: Operator) -> Expr {
    let right = operands.split_off(operands.len() / 2);
    match (operands.is_empty(), right) {
        (true, mut right) => right.pop().unwrap_or_default(),
        (false, right) => binary_expr(balanced(operands, op), op, balanced(right, op)),
    }
}

/// True for an expression with a part that may fail. A CASE guards its branches itself.
fn may_fail(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let mut found = false;
    expr.apply(|part| {
        if matches!(part, Expr::Case(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        found = fails(part, Some(schema));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// True for a part that may fail, whatever its operands are; without a schema, casts may have any
/// operand.
fn fails(part: &Expr, schema: Option<&DFSchema>) -> bool {
    match part {
        Expr::BinaryExpr(BinaryExpr { op, right, .. }) => is_division(*op) && !is_divisor(right),
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
    }
}

fn arithmetic(call: &ScalarFunction) -> Option<&CheckedArithmetic> {
    call.func.inner().downcast_ref::<CheckedArithmetic>()
}

pub(super) fn is_division(op: Operator) -> bool {
    matches!(op, Operator::Divide | Operator::Modulo)
}

/// True for a constant other than zero.
pub(super) fn is_divisor(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| *value != zero)
        }
        Expr::Cast(Cast { expr, .. }) => is_divisor(expr),
        _ => false,
    }
}

//! The operators of JSON: `->`, `->>`, `#>`, `#>>`, `@>`, `<@`, `?`, `?|`, `?&`, `@?`, `@@`, `||`,
//! `-` and `#-`, and its subscripts, `j['a'][0]`.
//!
//! Operators that other types have too are planned as JSON if their left operand has the type JSON,
//! not text: it is the result of a function or a cast, or a column. The operands of `||` are both
//! JSON, or one is JSON and the other a literal of JSON.

use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{Expr, ExprSchemable as _, GetFieldAccess};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::registry::functions;
use super::text::Json;
use super::types::is_json;

/// Expression planner that turns the operators of JSON into calls of functions.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let Some((name, swaps)) = function(&op, &left, &right, schema)? else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        let arguments = if swaps { vec![right, left] } else { vec![left, right] };
        Ok(PlannerResult::Planned(called(name, arguments)?))
    }
}

/// Expression planner of the subscripts of JSON; it runs before that of lists and structs.
#[derive(Debug)]
pub struct JsonSubscripts;

impl ExprPlanner for JsonSubscripts {
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { field_access, expr } = expr;
        let key = match &field_access {
            GetFieldAccess::NamedStructField { name } => Some(Expr::Literal(name.clone(), None)),
            GetFieldAccess::ListIndex { key } => Some(key.as_ref().clone()),
            GetFieldAccess::ListRange { .. } => None,
        };
        match key {
            Some(key) if is_json(&expr.to_field(schema)?.1) => {
                Ok(PlannerResult::Planned(called("json_subscript", vec![expr, key])?))
            }
            _ => Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr })),
        }
    }
}

fn called(name: &str, arguments: Vec<Expr>) -> Result<Expr> {
    match functions().into_iter().find(|function| function.name() == name) {
        Some(function) => Ok(function.call(arguments)),
        None => internal_err!("the function {name} is missing"),
    }
}

/// True for a literal that is JSON if the other operand is: null, or a text of JSON. Any other text
/// is joined to the text of the other operand, as PostgreSQL does for `json`.
fn is_plain(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    let text = value.try_as_str().flatten();
    value.is_null() || text.is_some_and(|text| Json::parse(text).is_ok())
}

/// The name of the function of an operator, and true if its operands are swapped.
fn function(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<Option<(&'static str, bool)>> {
    let is_json = |expr: &Expr| -> Result<bool> { Ok(is_json(&expr.to_field(schema)?.1)) };
    let is_text = |expr: &Expr| -> Result<bool> {
        let given = expr.get_type(schema)?;
        Ok(given.is_string() || given.is_null())
    };
    Ok(Some(match op {
        BinaryOperator::Arrow => ("json_get", false),
        BinaryOperator::LongArrow => ("json_get_text", false),
        BinaryOperator::HashArrow => ("json_get_path", false),
        BinaryOperator::HashLongArrow => ("json_get_path_text", false),
        BinaryOperator::AtArrow if is_text(left)? && is_text(right)? => ("jsonb_contains", false),
        BinaryOperator::ArrowAt if is_text(left)? && is_text(right)? => ("jsonb_contains", true),
        BinaryOperator::Question => ("jsonb_exists", false),
        BinaryOperator::QuestionPipe => ("jsonb_exists_any", false),
        BinaryOperator::QuestionAnd => ("jsonb_exists_all", false),
        BinaryOperator::AtQuestion if is_text(left)? => ("jsonb_path_exists_opr", false),
        BinaryOperator::AtAt if is_text(left)? => ("jsonb_path_match_opr", false),
        BinaryOperator::StringConcat
            if is_json(left)? && (is_json(right)? || is_plain(right))
                || is_plain(left) && is_json(right)? =>
        {
            ("jsonb_concat", false)
        }
        BinaryOperator::Minus if is_json(left)? => ("jsonb_delete", false),
        BinaryOperator::HashMinus => ("jsonb_delete_path", false),
        _ => return Ok(None),
    }))
}

//! Planner of quotients of decimals, which have more digits than DataFusion's operator returns.
//!
//! The types of expressions above a quotient depend on its type: the other side of a comparison,
//! the branches of a `CASE`, the columns of a `UNION`. So a quotient is planned as a call of the
//! function that divides (`terrace_exec::arithmetic`) before these expressions are. Quotients whose
//! operands have unknown types, such as parameters, keep the operator until
//! [`PostgresSemantics`](super::semantics::PostgresSemantics) replaces it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{Expr, Operator, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use terrace_exec::arithmetic::CheckedArithmetic;

use super::semantics::type_of;

/// Plans `a / b` of decimals, or of a decimal and an integer.
#[derive(Debug)]
pub(crate) struct DecimalQuotients;

impl ExprPlanner for DecimalQuotients {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(types) = decimals(&expr, schema) else {
            return Ok(PlannerResult::Original(expr));
        };
        let Some(function) = CheckedArithmetic::of(Operator::Divide, &types[0].1, &types[1].1)
        else {
            return Ok(PlannerResult::Original(expr));
        };
        let [left, right] = types;
        let operand = |expr: Expr, (own, of): (DataType, DataType)| match own == of {
            true => expr,
            false => cast(expr, of),
        };
        let operands = vec![operand(expr.left, left), operand(expr.right, right)];
        Ok(PlannerResult::Planned(function.call(operands)))
    }
}

/// The types of the operands of a quotient, each with the decimal that it is divided as; `None` if
/// it is no quotient of decimals.
fn decimals(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<[(DataType, DataType); 2]> {
    if expr.op != BinaryOperator::Divide {
        return None;
    }
    let (left, right) = (type_of(&expr.left, schema).ok()?, type_of(&expr.right, schema).ok()?);
    let is_one = left.is_decimal() || right.is_decimal();
    let fits = |of: &DataType| of.is_decimal() || of.is_integer();
    if !is_one || !fits(&left) || !fits(&right) {
        return None;
    }
    let coercer = BinaryTypeCoercer::new(&left, &Operator::Divide, &right);
    let (first, second) = coercer.get_input_types().ok()?;
    Some([(left, first), (right, second)])
}

//! Planner of quoted literals as operands of `+`, `-`, `*`, `/` and `%`, as in PostgreSQL: they get
//! the type of the other operand.
//!
//! ```text
//! amount + '2.5'                 amount + 2.5
//! timestamp - '2024-01-01'       an interval between timestamps
//! timestamp + '1 day'            a timestamp; only intervals can be added to one
//! ```

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable as _, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::columns::interval_of_text;

/// Expression planner that converts a quoted literal beside a number, date, timestamp or interval.
#[derive(Debug)]
pub struct LiteralOperands;

impl ExprPlanner for LiteralOperands {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, mut left, mut right } = expr;
        let (first, second) = match (literal(&left), literal(&right)) {
            (Some(text), None) => (operand(&op, text, &right, schema), None),
            (None, Some(text)) => (None, operand(&op, text, &left, schema)),
            _ => (None, None),
        };
        left = first.unwrap_or(left);
        right = second.unwrap_or(right);
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The text of a literal.
fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// The literal `text` converted for an operator with the operand `other`; `None` if it stays a
/// text.
fn operand(op: &BinaryOperator, text: &str, other: &Expr, schema: &DFSchema) -> Option<Expr> {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    if !matches!(op, Plus | Minus | Multiply | Divide | Modulo) {
        return None;
    }
    let value = || lit(text);
    let interval = || interval_of_text(value());
    let of = other.get_type(schema).ok()?;
    match (op, &of) {
        (_, DataType::Decimal128(..)) => Some(cast(value(), decimal(text))),
        (_, of) if of.is_numeric() => Some(cast(value(), of.clone())),
        (Minus, DataType::Timestamp(..) | DataType::Date32) => Some(cast(value(), of)),
        (Plus, DataType::Timestamp(..)) => Some(interval()),
        (Plus | Minus, DataType::Interval(_)) => Some(interval()),
        (Multiply | Divide, DataType::Interval(_)) => Some(cast(value(), DataType::Float64)),
        _ => None,
    }
}

/// The type of a number with the digits of a text.
fn decimal(text: &str) -> DataType {
    let text = text.trim();
    if text.contains(['e', 'E']) {
        return DataType::Float64;
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let scale = text.split_once('.').map_or(0, |(_, behind)| behind.len());
    let scale = i8::try_from(scale).unwrap_or(DECIMAL128_MAX_SCALE).min(DECIMAL128_MAX_SCALE);
    let precision = u8::try_from(digits).unwrap_or(DECIMAL128_MAX_PRECISION);
    DataType::Decimal128(precision.clamp(1, DECIMAL128_MAX_PRECISION), scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_the_digits_of_their_text() {
        assert_eq!(decimal("2.50"), DataType::Decimal128(3, 2));
        assert_eq!(decimal(" -12 "), DataType::Decimal128(2, 0));
        assert_eq!(decimal("1e3"), DataType::Float64);
        assert_eq!(decimal("x"), DataType::Decimal128(1, 0));
        assert_eq!(decimal(&"9".repeat(300)), DataType::Decimal128(38, 0));
    }
}

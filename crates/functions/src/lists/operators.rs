//! Operators of lists: `&&`, which is true for lists with an element in common, `||` with NULL, and
//! those between a list and an array that is written as a text, `l = '{1,2}'`.

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_nested::expr_fn::array_has_any;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable as _, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::array_text::text_array;
use super::elements::list_type;

/// Expression planner of the operators of lists, and of `NULL || NULL`, which is a text. It runs
/// before that of DataFusion.
#[derive(Debug)]
pub struct ListOperators;

impl ExprPlanner for ListOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{
            ArrowAt, AtArrow, Eq, Gt, GtEq, Lt, LtEq, NotEq, PGOverlap, StringConcat,
        };
        let RawBinaryExpr { op, mut left, mut right } = expr;
        if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | AtArrow | ArrowAt | PGOverlap)
            && !of_text(&mut left, &right, schema)?
        {
            of_text(&mut right, &left, schema)?;
        }
        let is_list =
            |expr: &Expr| -> Result<bool> { Ok(list_type(&expr.get_type(schema)?).is_some()) };
        let is_null = |expr: &Expr| -> Result<bool> { Ok(expr.get_type(schema)?.is_null()) };
        Ok(match op {
            PGOverlap if is_list(&left)? && is_list(&right)? => {
                PlannerResult::Planned(array_has_any(left, right))
            }
            StringConcat if is_null(&left)? && is_null(&right)? => {
                PlannerResult::Planned(lit(ScalarValue::Utf8(None)))
            }
            StringConcat if is_list(&left)? && is_null(&right)? => PlannerResult::Planned(left),
            StringConcat if is_null(&left)? && is_list(&right)? => PlannerResult::Planned(right),
            op => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }
}

/// Converts `operand` to a list if it is a text literal and `list` is a list; returns true if so.
fn of_text(operand: &mut Expr, list: &Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::Literal(text, _) = &*operand else { return Ok(false) };
    let Some(Some(text)) = text.try_as_str() else { return Ok(false) };
    let of = list.get_type(schema)?;
    if of.is_null() || list_type(&of).is_none() {
        return Ok(false);
    }
    *operand = Expr::Cast(Cast::new(Box::new(lit(text_array(text)?)), of));
    Ok(true)
}

//! The operator `&&` of lists: true if they have an element in common.

use datafusion::common::{DFSchema, Result};
use datafusion::functions_nested::expr_fn::array_has_any;
use datafusion::logical_expr::ExprSchemable as _;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::elements::list_type;

/// Plans the operators of lists as calls of functions.
#[derive(Debug)]
pub struct ListOperators;

impl ExprPlanner for ListOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_list = |expr: &datafusion::logical_expr::Expr| -> Result<bool> {
            Ok(list_type(&expr.get_type(schema)?).is_some())
        };
        let RawBinaryExpr { op, left, right } = expr;
        match op {
            BinaryOperator::PGOverlap if is_list(&left)? && is_list(&right)? => {
                Ok(PlannerResult::Planned(array_has_any(left, right)))
            }
            op => Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        }
    }
}

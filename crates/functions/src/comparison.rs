//! Order of lists and structs.
//!
//! DataFusion compares nested values with nulls before all other elements; PostgreSQL and DuckDB
//! compare them with nulls behind, as in `ORDER BY`.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array as _, Int32Array, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::Between;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable as _, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::checked::rows;

/// Rewrites `a < b` of lists or structs to `compare_nested(a, b) < 0`.
#[derive(Debug)]
pub(crate) struct NestedComparisons;

static COMPARE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Compare { signature }))
});

/// True for a type whose values are compared element by element.
fn has_elements(of: &DataType) -> bool {
    matches!(
        of,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
    )
}

/// True if one operand has elements, and the other has elements or is null.
fn are_nested(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    // A type that is not known here is that of a column of an outer query.
    let (Ok(left), Ok(right)) = (left.get_type(schema), right.get_type(schema)) else {
        return false;
    };
    has_elements(&left) && (has_elements(&right) || right.is_null())
        || left.is_null() && has_elements(&right)
}

fn compared(left: Expr, op: Operator, right: Expr) -> Expr {
    let order = COMPARE.call(vec![left, right]);
    Expr::BinaryExpr(BinaryExpr::new(Box::new(order), op, Box::new(lit(0_i32))))
}

impl FunctionRewrite for NestedComparisons {
    fn name(&self) -> &str {
        "nested_comparisons"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
                    && are_nested(&left, &right, schema) =>
            {
                Ok(Transformed::yes(compared(*left, op, *right)))
            }
            Expr::Between(Between { expr, negated, low, high })
                if are_nested(&expr, &low, schema) && are_nested(&expr, &high, schema) =>
            {
                let above = compared(expr.as_ref().clone(), Operator::GtEq, *low);
                let inside = above.and(compared(*expr, Operator::LtEq, *high));
                Ok(Transformed::yes(if negated { !inside } else { inside }))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// `compare_nested(a, b)`: -1, 0 or 1 if `a` is less than, equal to or greater than `b`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Compare {
    signature: Signature,
}

impl ScalarUDFImpl for Compare {
    fn name(&self) -> &str {
        "compare_nested"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = given else { return plan_err!("{} takes two values", self.name()) };
        let common = match (left.is_null(), right.is_null()) {
            (true, _) => Some(right.clone()),
            (_, true) => Some(left.clone()),
            _ => comparison_coercion(left, right),
        };
        match common {
            Some(common) => Ok(vec![common.clone(), common]),
            None => plan_err!("{left} and {right} cannot be compared; cast one of them"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = rows(&args);
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let [left, right] = args.args.as_slice() else {
            return exec_err!("{} takes two values", self.name());
        };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let options = SortOptions { descending: false, nulls_first: false };
        let compare = make_comparator(left.as_ref(), right.as_ref(), options)?;
        let order = |row| {
            let is_null = left.is_null(row) || right.is_null(row);
            (!is_null).then(|| match compare(row, row) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            })
        };
        let orders = Int32Array::from_iter((0..rows).map(order));
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&orders, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(orders))),
        }
    }
}

//! The types of expressions whose types are not coerced yet.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Expr, ExprSchemable as _};

pub(super) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// The type of an expression; `None` if it is not known yet.
pub(super) fn type_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

//! Types of expressions before type coercion, and comparison keys of their values.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ExprSchema;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, ExprSchemable as _};
use terrace_functions::columns::{TextType, interval_key, jsonb_key};

/// Returns the key of a value: an expression whose comparisons have the results that PostgreSQL's
/// comparisons of the values have.
pub(super) type Key = fn(Expr) -> Expr;

pub(super) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// The type of an expression; `None` if it is not known yet.
pub(super) fn type_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

/// True for a field whose values are compared by a [`Key`]: intervals and JSONB.
pub(in super::super) fn has_key(field: &Field) -> bool {
    is_interval(field.data_type()) || TextType::of(field) == Some(TextType::Jsonb)
}

/// The function that returns the key of an expression's values; `None` for a type without keys.
pub(super) fn key_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<Key> {
    if mark_of(expr, schema) == Some(TextType::Jsonb) {
        return Some(jsonb_key);
    }
    type_of(expr, schema).filter(is_interval).map(|_| interval_key as Key)
}

/// The text type of an expression, such as UUID or JSON; `None` for a plain text or another type.
pub(super) fn mark_of(expr: &Expr, schema: &dyn ExprSchema) -> Option<TextType> {
    match expr {
        Expr::Column(column) => TextType::of(schema.field_from_column(column).ok()?),
        Expr::OuterReferenceColumn(field, _) => TextType::of(field),
        Expr::Alias(Alias { expr, .. }) => mark_of(expr, schema),
        Expr::ScalarFunction(_) => TextType::of(&expr.to_field(schema).ok()?.1),
        Expr::ScalarSubquery(query) => TextType::of(query.subquery.schema().fields().first()?),
        _ => None,
    }
}

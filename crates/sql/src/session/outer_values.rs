//! Helpers that build the expressions for comparisons with subqueries.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ExprSchema as _, Result, internal_err};
use datafusion::logical_expr::Expr;
use terrace_exec::functions::aggregates;

/// A call of the engine's aggregate `name`, `min` or `max`, over `values`.
pub(super) fn bound(name: &str, values: Expr) -> Result<Expr> {
    let function = aggregates().into_iter().find(|function| function.name() == name);
    match function {
        Some(function) => Ok(function.call(vec![values])),
        None => internal_err!("there is no function {name}"),
    }
}

/// Converts columns of `schema` to references from inside a subquery.
pub(super) fn outer_reference(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let referred = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(referred.data)
}

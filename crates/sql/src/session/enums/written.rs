//! Texts that are written into columns of enums.

use datafusion::arrow::datatypes::Field;
use datafusion::common::Column;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::functions::{cast, check};
use super::plan::of_column;

/// A condition for each column of a table that is of an enum, with the column: it fails for a text
/// that is no label.
///
/// # Errors
/// If a type has been dropped.
pub(in crate::session) fn conditions(
    state: &SessionState,
    table: &Table,
) -> Result<Vec<(String, Expr)>, SqlError> {
    let mut conditions = Vec::new();
    for field in table.schema().fields() {
        if let Some(of) = of_column(state, field)? {
            let column = Expr::Column(Column::new_unqualified(field.name()));
            conditions.push((field.name().clone(), check(&of, column)));
        }
    }
    Ok(conditions)
}

/// A value of a column: a text that is checked if the column is of an enum.
///
/// # Errors
/// If the type has been dropped.
pub(in crate::session) fn value(
    state: &SessionState,
    value: Expr,
    field: &Field,
) -> Result<Expr, SqlError> {
    match of_column(state, field)? {
        Some(of) => Ok(cast(&of, value)),
        None => Ok(value),
    }
}

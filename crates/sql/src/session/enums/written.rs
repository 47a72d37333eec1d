//! Checks of the texts that are written into columns of enums.

use datafusion::arrow::datatypes::Field;
use datafusion::common::Column;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::functions::{cast, cast_list, check, check_list};
use super::kinds::Kind;
use super::plan::of_column;

/// For each column of a table that is of an enum or of lists of one, the name of the column and a
/// condition, whose evaluation fails for a text that is no label.
///
/// # Errors
/// If a type has been dropped.
pub(in crate::session) fn conditions(
    state: &SessionState,
    table: &Table,
) -> Result<Vec<(String, Expr)>, SqlError> {
    let mut conditions = Vec::new();
    for field in table.schema().fields() {
        let column = || Expr::Column(Column::new_unqualified(field.name()));
        let condition = match of_column(state, field)? {
            Some(Kind::Value(of)) => check(&of, column()),
            Some(Kind::List(of)) => check_list(&of, column()),
            None => continue,
        };
        conditions.push((field.name().clone(), condition));
    }
    Ok(conditions)
}

/// Wraps `value`, which becomes a value of the column `field`, in a cast that checks its labels if
/// the column is of an enum.
///
/// # Errors
/// If the type has been dropped.
pub(in crate::session) fn value(
    state: &SessionState,
    value: Expr,
    field: &Field,
) -> Result<Expr, SqlError> {
    match of_column(state, field)? {
        Some(Kind::Value(of)) => Ok(cast(&of, value)),
        Some(Kind::List(of)) => Ok(cast_list(&of, value)),
        None => Ok(value),
    }
}

//! `SET (a, b) = (1, DEFAULT)`, written out as one assignment for each column.

use datafusion::sql::sqlparser::ast::{Assignment, AssignmentTarget, Expr};
use terrace_table::error::SqlError;

use super::refusal::refused;

/// Writes out the assignments of rows.
///
/// # Errors
/// [`SqlError::Refused`] for another number of values, and for a subquery.
pub(super) fn write_out(assignments: &mut Vec<Assignment>) -> Result<(), SqlError> {
    let is_row = |assignment: &Assignment| matches!(assignment.target, AssignmentTarget::Tuple(_));
    if !assignments.iter().any(is_row) {
        return Ok(());
    }
    let mut written = Vec::new();
    for Assignment { target, value } in std::mem::take(assignments) {
        let columns = match target {
            AssignmentTarget::Tuple(columns) => columns,
            target @ AssignmentTarget::ColumnName(_) => {
                written.push(Assignment { target, value });
                continue;
            }
        };
        let text = value.to_string();
        let values = match value {
            Expr::Tuple(values) => values,
            Expr::Nested(value) => vec![*value],
            _ => {
                let what = format!("an assignment of {text} to several columns");
                return Err(refused(
                    &what,
                    "say SET (a, b) = (1, 2), or one value for each column",
                ));
            }
        };
        if values.len() != columns.len() {
            let what = format!("an assignment of {text} to {} columns", columns.len());
            return Err(refused(&what, "number of columns does not match number of values"));
        }
        written.extend(columns.into_iter().zip(values).map(|(column, value)| Assignment {
            target: AssignmentTarget::ColumnName(column),
            value,
        }));
    }
    *assignments = written;
    Ok(())
}

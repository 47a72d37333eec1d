//! CHECK constraints of a table, compiled for one statement.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::SessionState;
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::write::{Check, Checks};

use super::enums::written;
use super::expressions::Expressions;

/// Compiles the CHECK constraints of a table in the order of their names, and after them the
/// conditions on its columns of enum types.
///
/// # Errors
/// Errors of planning.
pub(super) fn compiled(state: &SessionState, table: &Table) -> Result<Checks, SqlError> {
    let checks = table.properties().checks.iter();
    let checks = checks.map(|(name, text)| compile(state, table.schema(), name, text));
    let mut checks = checks.collect::<Result<Vec<_>, _>>()?;
    for (name, condition) in written::conditions(state, table)? {
        let condition = Expressions::new(state, table.schema())?.compiled(condition)?;
        checks.push(Check { name, condition });
    }
    Ok(Checks::new(checks))
}

/// Compiles one constraint over rows of `schema`.
///
/// # Errors
/// Errors of planning; [`SqlError::Refused`] for a condition that is not Boolean.
pub(super) fn compile(
    state: &SessionState,
    schema: &SchemaRef,
    name: &str,
    text: &str,
) -> Result<Check, SqlError> {
    let expressions = Expressions::new(state, schema)?;
    let condition = expressions.compiled(expressions.planned(text)?)?;
    match condition.data_type(schema)? {
        DataType::Boolean | DataType::Null => Ok(Check { name: name.to_owned(), condition }),
        other => Err(SqlError::Refused {
            what: format!("the check {text}, whose type is {other}"),
            instead: "say a condition".to_owned(),
        }),
    }
}

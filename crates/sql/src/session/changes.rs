//! Rewrites of INSERT, UPDATE and MERGE: replaces forms that DataFusion cannot plan by ones that it
//! can.

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::{insert_forms, merge_clauses, row_assignments};

/// Rewrites the clauses of an INSERT, UPDATE or MERGE; leaves any other statement unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for a clause that is not possible; errors of planning its queries.
pub(super) async fn write_out(
    state: &SessionState,
    snapshot: &Snapshot,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    match changed(statement) {
        Some(SqlStatement::Insert(insert)) => {
            insert_forms::write_out(state, snapshot, insert).await
        }
        Some(SqlStatement::Update(update)) => row_assignments::write_out(&mut update.assignments),
        Some(SqlStatement::Merge(merge)) => merge_clauses::write_out(state, snapshot, merge).await,
        _ => Ok(()),
    }
}

/// The statement itself, or the one that an EXPLAIN or PREPARE contains.
fn changed(statement: &mut Statement) -> Option<&mut SqlStatement> {
    let mut statement = statement;
    while let Statement::Explain(explain) = statement {
        statement = explain.statement.as_mut();
    }
    let Statement::Statement(statement) = statement else { return None };
    let mut statement = statement.as_mut();
    loop {
        match statement {
            SqlStatement::Prepare { statement: inner, .. }
            | SqlStatement::Explain { statement: inner, .. } => statement = inner.as_mut(),
            other => return Some(other),
        }
    }
}

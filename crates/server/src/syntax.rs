//! Syntax trees of statements.

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use terrace_sql::session::SessionStatement;

/// Returns the syntax tree of the SQL parser; `None` for a statement that another parser reads.
pub(crate) fn parsed(statement: &SessionStatement) -> Option<&SqlStatement> {
    let SessionStatement::Sql(statement) = statement else { return None };
    match statement.as_ref() {
        Parsed::Statement(statement) => Some(statement),
        _ => None,
    }
}

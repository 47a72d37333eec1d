//! Syntax trees of statements.

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use terrace_sql::session::SessionStatement;

/// Returns the syntax tree of a statement; `None` for a statement that sqlparser does not parse.
pub(crate) fn parsed(statement: &SessionStatement) -> Option<&SqlStatement> {
    let SessionStatement::Sql(statement) = statement else { return None };
    match statement.as_ref() {
        Parsed::Statement(statement) => Some(statement),
        _ => None,
    }
}

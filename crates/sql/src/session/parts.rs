//! Data-modifying WITH: statements of several parts, which are the changes of rows in a WITH, and
//! the main statement after it.
//!
//! ```text
//! WITH gone AS (DELETE FROM a RETURNING *) INSERT INTO b SELECT * FROM gone
//! ```
//!
//! Each change is planned as a statement of its own, and so is a query that several statements
//! read (`split`). A later one names its rows as a WITH query over them (`rows`). The tables whose
//! rows are rewritten are locked before the parts are planned for a run (`plan`), so that all of
//! them read one snapshot, and no other session changes what they have read. The parts run one
//! after another to their ends, in a transaction in which none of them sees the changes of another
//! (`run`). Their rows are in pages of the query. Once the last part is complete, the changes of
//! all are applied, and committed unless the session has an open transaction; then the client gets
//! the rows of the statement behind the WITH.

mod names;
mod node;
mod plan;
mod rows;
mod run;
mod split;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement};

use super::normalize::has_changes;
use super::statement::SessionStatement;

pub(super) use node::{PartsNode, of};

/// True if queries of the WITH of a statement change rows.
pub(super) fn are_in(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else { return false };
    query_of(statement).is_some_and(has_changes)
}

/// The query that is a statement, also one of PREPARE or CREATE TABLE AS.
fn query_of(statement: &SqlStatement) -> Option<&Query> {
    match statement {
        SqlStatement::Query(query) => Some(query),
        SqlStatement::CreateTable(create) => create.query.as_deref(),
        SqlStatement::Prepare { statement, .. } => query_of(statement),
        _ => None,
    }
}

impl SessionStatement {
    /// Returns true if the WITH of the statement has changes of rows.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        match self {
            Self::Sql(statement) => are_in(statement),
            _ => false,
        }
    }
}

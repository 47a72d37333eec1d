//! Statements that begin, end and configure transactions.
//!
//! ```text
//! BEGIN [READ ONLY];  START TRANSACTION;  COMMIT;  END;  ROLLBACK;  ABORT;
//! COMMIT AND CHAIN;  ROLLBACK AND CHAIN;
//! SAVEPOINT name;  RELEASE SAVEPOINT name;  ROLLBACK TO SAVEPOINT name;
//! SET TRANSACTION READ ONLY;  SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;
//! ```
//!
//! Every transaction has snapshot isolation, which is more than READ COMMITTED and REPEATABLE READ
//! require. SERIALIZABLE is refused.

use std::fmt;

use datafusion::common::{DataFusionError, Result as ParseResult, not_impl_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Ident, Set, Statement as SqlStatement, TransactionAccessMode, TransactionIsolationLevel,
    TransactionMode,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::words::take_all;

/// A statement about the transaction of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatement {
    /// Begins a transaction.
    Begin {
        /// True for READ ONLY, false for READ WRITE; `None` for the session's default.
        is_read_only: Option<bool>,
    },
    /// Commits the transaction.
    Commit,
    /// Rolls the transaction back.
    RollBack,
    /// Ends the transaction and begins one with its access mode: AND CHAIN.
    Chain {
        /// True for COMMIT, false for ROLLBACK.
        commits: bool,
    },
    /// Sets the savepoint of this name.
    Savepoint(String),
    /// Releases the savepoint of this name.
    Release(String),
    /// Rolls back to the savepoint of this name.
    RollBackTo(String),
    /// Sets the access mode.
    Access {
        /// True for READ ONLY, false for READ WRITE; `None` leaves it unchanged.
        is_read_only: Option<bool>,
        /// True if it applies to later transactions of the session, false for the current one.
        is_for_session: bool,
    },
}

impl fmt::Display for TransactionStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = |is_read_only: &Option<bool>| match is_read_only {
            None => "",
            Some(true) => " READ ONLY",
            Some(false) => " READ WRITE",
        };
        let quoted = |name: &String| Ident::with_quote('"', name);
        match self {
            Self::Begin { is_read_only } => write!(f, "BEGIN{}", access(is_read_only)),
            Self::Commit => f.write_str("COMMIT"),
            Self::RollBack => f.write_str("ROLLBACK"),
            Self::Chain { commits: true } => f.write_str("COMMIT AND CHAIN"),
            Self::Chain { commits: false } => f.write_str("ROLLBACK AND CHAIN"),
            Self::Savepoint(name) => write!(f, "SAVEPOINT {}", quoted(name)),
            Self::Release(name) => write!(f, "RELEASE SAVEPOINT {}", quoted(name)),
            Self::RollBackTo(name) => write!(f, "ROLLBACK TO SAVEPOINT {}", quoted(name)),
            Self::Access { is_read_only, is_for_session } => match is_for_session {
                true => {
                    write!(f, "SET SESSION CHARACTERISTICS AS TRANSACTION{}", access(is_read_only))
                }
                false => write!(f, "SET TRANSACTION{}", access(is_read_only)),
            },
        }
    }
}

/// Converts a statement about a transaction; `None` for any other.
///
/// # Errors
/// For a statement that asks for an unsupported feature.
pub(super) fn of(statement: &Statement) -> ParseResult<Option<TransactionStatement>> {
    let Statement::Statement(statement) = statement else { return Ok(None) };
    Ok(Some(match statement.as_ref() {
        SqlStatement::StartTransaction { modes, modifier: None, statements, .. }
            if statements.is_empty() =>
        {
            TransactionStatement::Begin { is_read_only: access(modes)? }
        }
        SqlStatement::Commit { chain: false, modifier: None, .. } => TransactionStatement::Commit,
        SqlStatement::Rollback { chain: false, savepoint: None } => TransactionStatement::RollBack,
        SqlStatement::Rollback { chain: false, savepoint: Some(name) } => {
            TransactionStatement::RollBackTo(name_of(name))
        }
        SqlStatement::Savepoint { name } => TransactionStatement::Savepoint(name_of(name)),
        SqlStatement::ReleaseSavepoint { name } => TransactionStatement::Release(name_of(name)),
        SqlStatement::Set(Set::SetTransaction { modes, snapshot: None, session }) => {
            TransactionStatement::Access { is_read_only: access(modes)?, is_for_session: *session }
        }
        SqlStatement::Commit { chain: true, modifier: None, .. } => {
            TransactionStatement::Chain { commits: true }
        }
        SqlStatement::Rollback { chain: true, savepoint: None } => {
            TransactionStatement::Chain { commits: false }
        }
        SqlStatement::StartTransaction { .. }
        | SqlStatement::Commit { .. }
        | SqlStatement::Rollback { .. }
        | SqlStatement::Set(Set::SetTransaction { .. }) => {
            return not_impl_err!(
                "{statement} is not possible; say BEGIN, COMMIT, ROLLBACK or SET TRANSACTION \
                 without further words"
            );
        }
        _ => return Ok(None),
    }))
}

/// Parses ABORT, PostgreSQL's other word for ROLLBACK, if it follows.
pub(super) fn abort(parser: &mut Parser<'_>) -> Option<TransactionStatement> {
    if !take_all(parser, &["abort"]) {
        return None;
    }
    let _optional = take_all(parser, &["transaction"]) || take_all(parser, &["work"]);
    let _default = take_all(parser, &["and", "no", "chain"]);
    Some(match take_all(parser, &["and", "chain"]) {
        true => TransactionStatement::Chain { commits: false },
        false => TransactionStatement::RollBack,
    })
}

fn name_of(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

/// The access mode that the modes set; true for READ ONLY.
fn access(modes: &[TransactionMode]) -> Result<Option<bool>, DataFusionError> {
    let mut is_read_only = None;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => {
                is_read_only = Some(*mode == TransactionAccessMode::ReadOnly);
            }
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return not_impl_err!(
                    "ISOLATION LEVEL SERIALIZABLE; transactions are isolated by snapshots: say \
                     REPEATABLE READ, or leave the level out"
                );
            }
            TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(is_read_only)
}

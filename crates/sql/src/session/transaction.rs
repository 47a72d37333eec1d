//! Statements that begin, end and configure transactions.
//!
//! ```text
//! BEGIN [READ ONLY];  START TRANSACTION;  COMMIT;  END;  ROLLBACK;  ABORT;
//! SAVEPOINT name;  RELEASE SAVEPOINT name;  ROLLBACK TO SAVEPOINT name;
//! SET TRANSACTION READ ONLY;  SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;
//! ```
//!
//! Every transaction has snapshot isolation, which is more than READ COMMITTED and REPEATABLE READ
//! require. SERIALIZABLE is refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::{DataFusionError, Result as ParseResult, not_impl_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Ident, Set, Statement as SqlStatement, TransactionAccessMode, TransactionIsolationLevel,
    TransactionMode,
};
use futures::future::BoxFuture;

use super::{Planned, Session};
use crate::error::SqlError;
use crate::transaction::{Scope, Transaction, TransactionStatus};

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
        SqlStatement::StartTransaction { .. }
        | SqlStatement::Commit { .. }
        | SqlStatement::Rollback { .. }
        | SqlStatement::Set(Set::SetTransaction { .. }) => {
            return not_impl_err!("{statement}");
        }
        _ => return Ok(None),
    }))
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

impl Session {
    /// State of the session's transaction.
    #[must_use]
    pub fn transaction_status(&self) -> TransactionStatus {
        match self.scope() {
            Scope::Alone => TransactionStatus::Idle,
            Scope::Within(transaction) if transaction.is_failed() => TransactionStatus::Failed,
            Scope::Within(_) => TransactionStatus::Open,
        }
    }

    /// Marks the session's transaction as failed, if there is one: for a statement that could not
    /// be parsed, or whose result could not be delivered.
    pub fn fail_transaction(&self) {
        self.scope().fail();
    }

    /// The transaction that the next statement belongs to.
    pub(super) fn scope(&self) -> Scope {
        let transaction = self.transaction();
        transaction.as_ref().map_or(Scope::Alone, |open| Scope::Within(Arc::clone(open)))
    }

    /// Begins a transaction, as BEGIN does, read-only if `is_read_only`; `None` stands for the
    /// session's default.
    ///
    /// # Errors
    /// [`SqlError::TransactionBegun`].
    pub fn begin(&self, is_read_only: Option<bool>) -> Result<(), SqlError> {
        let mut transaction = self.transaction();
        if transaction.is_some() {
            return Err(SqlError::TransactionBegun);
        }
        let is_read_only = is_read_only.unwrap_or(self.reads_only.load(Ordering::Relaxed));
        *transaction = Some(Arc::new(Transaction::begin(self.engine.catalog(), is_read_only)));
        Ok(())
    }

    /// Ends the transaction, as COMMIT does. Returns true if its changes are committed, false for a
    /// failed transaction, whose changes are undone.
    ///
    /// # Errors
    /// [`SqlError::NoTransaction`]; [`SqlError::Conflict`] if another transaction has changed the
    /// same rows or names; errors of the store and of the catalog's file. After any of these the
    /// transaction has ended.
    pub fn commit<'a>(&'a self) -> BoxFuture<'a, Result<bool, SqlError>> {
        Box::pin(async move {
            let open = self.transaction().take();
            open.ok_or(SqlError::NoTransaction)?.commit().await
        })
    }

    /// Ends the transaction and undoes its changes, as ROLLBACK does.
    ///
    /// # Errors
    /// [`SqlError::NoTransaction`].
    pub fn roll_back(&self) -> Result<(), SqlError> {
        let open = self.transaction().take();
        open.ok_or(SqlError::NoTransaction)?.roll_back();
        Ok(())
    }

    /// Runs a statement about the session's transaction.
    pub(super) async fn act_on_transaction(
        &self,
        statement: TransactionStatement,
    ) -> Result<Planned, SqlError> {
        match statement {
            TransactionStatement::Begin { is_read_only } => self.begin(is_read_only)?,
            TransactionStatement::Commit => drop(self.commit().await?),
            TransactionStatement::RollBack => self.roll_back()?,
            TransactionStatement::Savepoint(name) => self.open()?.set_savepoint(name)?,
            TransactionStatement::Release(name) => self.open()?.release_savepoint(&name)?,
            TransactionStatement::RollBackTo(name) => self.open()?.return_to_savepoint(&name)?,
            TransactionStatement::Access { is_read_only: None, .. } => {}
            TransactionStatement::Access { is_read_only: Some(only), is_for_session } => {
                match is_for_session {
                    true => self.reads_only.store(only, Ordering::Relaxed),
                    false => self.open()?.set_read_only(only)?,
                }
            }
        }
        Ok(Planned::nothing())
    }

    fn open(&self) -> Result<Arc<Transaction>, SqlError> {
        self.transaction().clone().ok_or(SqlError::NoTransaction)
    }
}

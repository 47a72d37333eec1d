//! Begin and end of a session's transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use terrace_table::error::SqlError;
use terrace_table::transaction::{Scope, Transaction, TransactionStatus};

use crate::session::notice::Notice;
use crate::session::state::{Planned, Session};
use crate::session::transaction::TransactionStatement;

impl Session {
    /// State of the session's transaction.
    #[must_use]
    pub fn transaction_status(&self) -> TransactionStatus {
        let transaction = self.transaction().clone();
        match transaction {
            None => TransactionStatus::Idle,
            Some(transaction) if transaction.is_failed() => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
        }
    }

    /// The access mode of the session's transaction: true for READ ONLY. `None` without a
    /// transaction.
    #[must_use]
    pub fn transaction_reads_only(&self) -> Option<bool> {
        let transaction = self.transaction().clone();
        transaction.map(|transaction| transaction.is_read_only())
    }

    /// Marks the session's transaction as failed, if there is one: for a statement that could not
    /// be parsed, or whose result could not be delivered.
    pub fn fail_transaction(&self) {
        self.scope().fail();
    }

    /// The transaction that the next statement belongs to, if any, and its lock timeout.
    pub(in crate::session) fn scope(&self) -> Scope {
        let (transaction, limit) = (self.transaction().clone(), self.lock_timeout());
        match transaction {
            None => Scope::Alone(limit),
            Some(transaction) => Scope::Within(transaction, limit),
        }
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
    /// same rows or names; [`SqlError::LockTimeout`]; errors of the store and of the catalog's
    /// file. After any of these the transaction has ended.
    pub fn commit<'a>(&'a self) -> BoxFuture<'a, Result<bool, SqlError>> {
        Box::pin(async move {
            let open = self.transaction().take();
            let limit = self.lock_timeout().shown_by(self.info.commits());
            let committed = open.ok_or(SqlError::NoTransaction)?.commit(&limit).await;
            self.end_locals();
            if let Ok(true) = committed {
                self.end_temporary_rows().await?;
            }
            committed
        })
    }

    /// Ends the transaction and undoes its changes, as ROLLBACK does.
    ///
    /// # Errors
    /// [`SqlError::NoTransaction`].
    pub fn roll_back(&self) -> Result<(), SqlError> {
        let open = self.transaction().take();
        open.ok_or(SqlError::NoTransaction)?.roll_back();
        self.end_locals();
        Ok(())
    }

    /// Runs a statement about the session's transaction, with the effects of [`Session::execute`]
    /// but without a query: there is nothing to plan, to wait for or to suspend.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub async fn transact(&self, statement: TransactionStatement) -> Result<(), SqlError> {
        self.end_temporary_rows().await?;
        let done = self.act_on_transaction(statement).await;
        done.map(drop).inspect_err(|error| self.failed(error))
    }

    /// Runs a statement about the session's transaction.
    pub(in crate::session) async fn act_on_transaction(
        &self,
        statement: TransactionStatement,
    ) -> Result<Planned, SqlError> {
        match statement {
            TransactionStatement::Begin { is_read_only } => match self.begin(is_read_only) {
                Err(SqlError::TransactionBegun) => {
                    self.scope().refuse_failed()?;
                    let text = "there is already a transaction in progress";
                    self.notice(Notice::warning("25001", text));
                }
                begun => begun?,
            },
            TransactionStatement::Commit | TransactionStatement::RollBack
                if self.transaction_status() == TransactionStatus::Idle =>
            {
                let text = "there is no transaction in progress";
                self.notice(Notice::warning("25P01", text));
            }
            TransactionStatement::Commit => drop(self.commit().await?),
            TransactionStatement::RollBack => self.roll_back()?,
            TransactionStatement::Chain { commits } => {
                let is_read_only = self.open()?.is_read_only();
                match commits {
                    true => drop(self.commit().await?),
                    false => self.roll_back()?,
                }
                self.begin(Some(is_read_only))?;
            }
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

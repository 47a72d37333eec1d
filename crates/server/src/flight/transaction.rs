//! The transaction of a session.
//!
//! A session has at most one transaction at a time. A transaction begun by an action has a number,
//! which its statements must name; prepared statements and ingestions, which do not name one,
//! belong to the open transaction.

use terrace_sql::session::TransactionStatement;
use terrace_sql::{SqlError, TransactionStatus};

use super::handle::number_of;
use super::session::ClientSession;
use crate::failure::{Failure, SqlState};
use crate::postgres::follow_changes;
use crate::settings::DEFAULT_READ_ONLY;

impl ClientSession {
    /// Refuses a statement that is not a part of the open transaction.
    ///
    /// # Errors
    /// A transaction that does not exist, or another one that is open.
    pub(super) fn check_transaction(&self, given: Option<&[u8]>) -> Result<(), Failure> {
        self.refuse_if_ended()?;
        let given = given.filter(|id| !id.is_empty());
        match (self.open_transaction(), given) {
            (None, None) => Ok(()),
            (Some(open), Some(given)) if number_of(given) == Some(open) => Ok(()),
            (_, Some(_)) => Err(no_transaction()),
            (Some(_), None) => {
                let text = "a transaction of the session is open, and the statement does not name \
                            it; name it, end it, or use another session";
                Err(Failure::new(SqlState::IN_TRANSACTION, text))
            }
        }
    }

    /// Returns the transaction that an action has begun, unless a statement has ended it.
    fn open_transaction(&self) -> Option<u64> {
        let is_open = self.session.transaction_status() != TransactionStatus::Idle;
        let mut state = self.state();
        if !is_open {
            state.transaction = None;
            state.savepoints.clear();
        }
        state.transaction
    }

    /// Begins a transaction. Returns its number.
    ///
    /// # Errors
    /// A transaction that is open already.
    pub(super) async fn begin_transaction(&self) -> Result<u64, Failure> {
        let _turn = self.turn.lock().await;
        self.refuse_if_ended()?;
        self.session.begin(None)?;
        self.place.settings.begin();
        let mut state = self.state();
        state.last += 1;
        state.savepoints.clear();
        state.transaction = Some(state.last);
        Ok(state.last)
    }

    /// Ends a transaction: commits it if `commits` is true, else rolls it back.
    ///
    /// # Errors
    /// A transaction that does not exist, has failed, or conflicts with another one.
    pub(super) async fn end_transaction(&self, id: &[u8], commits: bool) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        if number_of(id).is_none() || self.open_transaction() != number_of(id) {
            return Err(no_transaction());
        }
        self.state().transaction = None;
        match commits {
            true => self.commit().await,
            false => self.roll_back().await,
        }
    }

    /// Commits the session's transaction. Settings changed in it persist, except those of SET
    /// LOCAL.
    pub(super) async fn commit(&self) -> Result<(), Failure> {
        let committed = self.session.commit().await;
        self.place.settings.end(matches!(committed, Ok(true)));
        self.follow_settings().await?;
        match committed? {
            true => Ok(()),
            false => {
                let text = "the transaction has failed before, and was rolled back";
                Err(Failure::new(SqlState::FAILED_TRANSACTION, text))
            }
        }
    }

    /// Rolls the session's transaction back, and its settings.
    async fn roll_back(&self) -> Result<(), Failure> {
        self.session.roll_back()?;
        self.place.settings.end(false);
        self.follow_settings().await
    }

    /// Applies to the session the settings that statements, or the end of a transaction, have
    /// changed. In a failed transaction, which runs no statements, it does nothing: its end
    /// restores the settings.
    pub(super) async fn follow_settings(&self) -> Result<(), Failure> {
        for notice in self.session.take_notices() {
            tracing::debug!(%notice, "clients of Flight SQL see no notices");
        }
        // A failed transaction may continue after ROLLBACK TO SAVEPOINT, and keeps its locks.
        if self.session.transaction_status() == TransactionStatus::Idle {
            self.registered.end_transaction();
        }
        if self.session.transaction_status() != TransactionStatus::Failed {
            let _told = follow_changes(&self.session, &self.place.settings).await?;
        }
        Ok(())
    }

    /// Sets a savepoint in a transaction. Returns its number.
    ///
    /// # Errors
    /// A transaction that does not exist, or has failed.
    pub(super) async fn begin_savepoint(&self, id: &[u8], name: &str) -> Result<u64, Failure> {
        let _turn = self.turn.lock().await;
        if number_of(id).is_none() || self.open_transaction() != number_of(id) {
            return Err(no_transaction());
        }
        let (number, name) = self.new_savepoint(name);
        self.transact(TransactionStatement::Savepoint(name.clone())).await?;
        self.state().savepoints.insert(number, name);
        Ok(number)
    }

    /// Returns the number of a new savepoint, and a unique name for it: of two savepoints with the
    /// same name, SQL finds only the newer one, but the client may end either.
    fn new_savepoint(&self, name: &str) -> (u64, String) {
        let mut state = self.state();
        state.last += 1;
        let is_taken = state.savepoints.values().any(|known| known == name);
        let name = if is_taken { format!("{name} {}", state.last) } else { name.to_owned() };
        (state.last, name)
    }

    /// Ends a savepoint: releases it, or rolls back to it.
    ///
    /// # Errors
    /// A savepoint that does not exist.
    pub(super) async fn end_savepoint(&self, id: &[u8], releases: bool) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        // One that is rolled back to is still there.
        let known = number_of(id).and_then(|number| match releases {
            true => self.state().savepoints.remove(&number),
            false => self.state().savepoints.get(&number).cloned(),
        });
        let Some(name) = known.filter(|_| self.open_transaction().is_some()) else {
            let text = "there is no savepoint of this name in the transaction";
            return Err(Failure::new(SqlState::NO_SAVEPOINT, text));
        };
        match releases {
            true => self.transact(TransactionStatement::Release(name)).await,
            false => self.transact(TransactionStatement::RollBackTo(name)).await,
        }
    }

    /// Executes a transaction statement. Ending a transaction that does not exist succeeds, as in
    /// PostgreSQL: pools send ROLLBACK whether a transaction is open or not.
    pub(super) async fn transact(&self, statement: TransactionStatement) -> Result<(), Failure> {
        match (statement, self.session.transaction_status()) {
            (
                TransactionStatement::Commit | TransactionStatement::RollBack,
                TransactionStatus::Idle,
            ) => Ok(()),
            (TransactionStatement::Chain { .. }, TransactionStatus::Idle) => {
                Err(SqlError::NoTransaction.into())
            }
            (TransactionStatement::Chain { commits }, _) => {
                let is_read_only = self.session.transaction_reads_only();
                match commits {
                    true => self.commit().await?,
                    false => self.roll_back().await?,
                }
                self.session.begin(is_read_only)?;
                self.place.settings.begin();
                Ok(())
            }
            (TransactionStatement::Commit, _) => self.commit().await,
            (TransactionStatement::RollBack, _) => self.roll_back().await,
            (statement, _) => {
                self.session.transact(statement.clone()).await?;
                let settings = &self.place.settings;
                match &statement {
                    TransactionStatement::Begin { .. } => settings.begin(),
                    TransactionStatement::Savepoint(name) => settings.save(name),
                    TransactionStatement::Release(name) => settings.release(name),
                    TransactionStatement::Access {
                        is_read_only: Some(is_read_only),
                        is_for_session: true,
                    } => {
                        let value = if *is_read_only { "on" } else { "off" };
                        settings.set(DEFAULT_READ_ONLY, value, false)?;
                    }
                    TransactionStatement::RollBackTo(name) => {
                        settings.roll_back_to(name);
                        self.follow_settings().await?;
                    }
                    _ => {}
                }
                Ok(())
            }
        }
    }

    /// Begins an implicit transaction around all changes of a call, unless one is open.
    ///
    /// # Errors
    /// [`SqlError::TransactionFailed`].
    pub(super) fn begin_implicitly(&self) -> Result<Implicit<'_>, Failure> {
        let is_begun = match self.session.transaction_status() {
            TransactionStatus::Idle => {
                self.session.begin(None)?;
                self.place.settings.begin();
                true
            }
            TransactionStatus::Open => false,
            TransactionStatus::Failed => return Err(SqlError::TransactionFailed.into()),
        };
        Ok(Implicit { client: self, is_begun })
    }
}

/// An implicit transaction around all changes of a call; rolled back unless it is committed.
pub(super) struct Implicit<'a> {
    client: &'a ClientSession,
    is_begun: bool,
}

impl Implicit<'_> {
    /// Commits the transaction, if the call has begun it.
    ///
    /// # Errors
    /// A conflict with another transaction.
    pub(super) async fn commit(mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_begun) {
            true => self.client.commit().await,
            false => Ok(()),
        }
    }
}

impl Drop for Implicit<'_> {
    fn drop(&mut self) {
        if self.is_begun {
            // The transaction may have ended with its session. The next statement of the session
            // applies the restored settings.
            let _ended = self.client.session.roll_back();
            self.client.place.settings.end(false);
        }
    }
}

fn no_transaction() -> Failure {
    let text = "there is no such transaction in the session, or it has ended";
    Failure::new(SqlState::NO_TRANSACTION, text)
}

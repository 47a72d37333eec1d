//! Transactions of a connection: explicit ones, and implicit ones of statements that are sent
//! together, which are committed or undone together.

use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::PgWireFrontendMessage as In;
use pgwire::messages::response::{CommandComplete, ReadyForQuery, TransactionStatus as Status};
use terrace_sql::session::TransactionStatement;
use terrace_sql::{SqlError, TransactionStatus};
use tokio::time::timeout;

use super::command::Command;
use super::connection::Connection;
use super::failure::{Failure, SqlState};
use super::guard::terminated;
use super::portal::rest_between;
use crate::settings::DEFAULT_READ_ONLY;
use crate::shutdown::stopping;

impl Connection {
    /// Returns the status that is reported when the server is ready for the next statement.
    pub(super) fn status(&self) -> Status {
        match self.session.transaction_status() {
            TransactionStatus::Idle => Status::Idle,
            TransactionStatus::Open => Status::Transaction,
            TransactionStatus::Failed => Status::Error,
        }
    }

    /// Sends `ReadyForQuery`, after the settings that the statement has changed.
    pub(super) async fn ready(&mut self) -> Result<(), Failure> {
        self.control.registered.rest();
        // A failed transaction may continue after ROLLBACK TO SAVEPOINT, and keeps its locks.
        if self.status() == Status::Idle {
            self.control.registered.end_transaction();
        }
        // In a failed transaction the session runs no statements; its end restores the settings.
        if self.status() != Status::Error {
            self.follow_settings().await?;
        }
        self.wire.put(Out::ReadyForQuery(ReadyForQuery::new(self.status())))?;
        self.wire.flush().await
    }

    /// Reads the next message. In a transaction, waits no longer than the client's settings allow.
    /// Queries of open portals are suspended meanwhile.
    pub(super) async fn next(&mut self) -> Result<Option<In>, Failure> {
        if self.wire.has_next() {
            return self.wire.next().await;
        }
        let limit = match self.status() {
            Status::Idle => None,
            _ => self.settings.idle_in_transaction(),
        };
        let ended = self.control.registered.terminated();
        let stopping = stopping(&mut self.control.stopped);
        let resting = rest_between(&mut self.portals);
        let next = async {
            tokio::select! {
                biased;
                () = ended => Err(terminated()),
                // Messages that have arrived are answered before the shutdown.
                message = self.wire.next() => message,
                () = stopping => Err(Failure::fatal(SqlState::TERMINATED, "the server ends")),
                never = resting => match never {},
            }
        };
        let Some(limit) = limit else { return next.await };
        match timeout(limit, next).await {
            Ok(message) => message,
            Err(_late) => {
                let text = format!(
                    "the transaction has waited for a statement for \
                     idle_in_transaction_session_timeout, {limit:?}"
                );
                Err(Failure::fatal(SqlState::IDLE_IN_TRANSACTION, text))
            }
        }
    }

    /// Fails in a failed transaction, which runs no statements.
    pub(super) fn refuse_if_failed(&self) -> Result<(), Failure> {
        match self.status() {
            Status::Error => Err(SqlError::TransactionFailed.into()),
            _ => Ok(()),
        }
    }

    /// Executes a transaction statement. One that changes nothing gives a warning, as in
    /// PostgreSQL: connection pools send ROLLBACK whether a transaction is open or not.
    pub(super) async fn transact(
        &mut self,
        statement: &TransactionStatement,
    ) -> Result<(), Failure> {
        let before = self.status();
        let mut tag = Command::Transaction(statement.clone()).tag(0);
        match (statement, before) {
            (TransactionStatement::Begin { is_read_only }, _) if self.is_implicit => {
                let (is_read_only, is_for_session) = (*is_read_only, false);
                let access = TransactionStatement::Access { is_read_only, is_for_session };
                self.session.transact(access).await?;
                self.is_implicit = false;
            }
            (
                TransactionStatement::Begin { .. }
                | TransactionStatement::Access { is_for_session: false, .. },
                Status::Error,
            ) => self.refuse_if_failed()?,
            (TransactionStatement::Begin { .. }, Status::Transaction) => {
                let text = "there is already a transaction in progress";
                self.warn(&Failure::new(SqlState::IN_TRANSACTION, text))?;
            }
            (TransactionStatement::Commit | TransactionStatement::RollBack, Status::Idle) => {
                self.warn_outside_transaction()?;
            }
            (TransactionStatement::Access { is_for_session: false, .. }, Status::Idle) => {
                let text = "SET TRANSACTION can only be used in transaction blocks";
                self.warn(&Failure::new(SqlState::NO_TRANSACTION, text))?;
            }
            (TransactionStatement::Chain { .. }, Status::Idle) => {
                return Err(SqlError::NoTransaction.into());
            }
            (TransactionStatement::Chain { .. }, _) if self.is_implicit => {
                return Err(SqlError::NoTransaction.into());
            }
            (TransactionStatement::Chain { commits }, _) => {
                let is_read_only = self.session.transaction_reads_only();
                tag = self.end_explicitly(*commits).await?;
                self.session.begin(is_read_only)?;
                self.settings.begin();
            }
            (TransactionStatement::Commit, _) => tag = self.end_explicitly(true).await?,
            (TransactionStatement::RollBack, _) => tag = self.end_explicitly(false).await?,
            (statement, _) => {
                self.session.transact(statement.clone()).await?;
                match statement {
                    TransactionStatement::Begin { .. } => self.settings.begin(),
                    TransactionStatement::Savepoint(name) => self.settings.save(name),
                    TransactionStatement::Release(name) => self.settings.release(name),
                    TransactionStatement::Access {
                        is_read_only: Some(is_read_only),
                        is_for_session: true,
                    } => {
                        let value = if *is_read_only { "on" } else { "off" };
                        self.set(DEFAULT_READ_ONLY, value, false).await?;
                    }
                    TransactionStatement::RollBackTo(name) => {
                        self.settings.roll_back_to(name);
                        self.follow_settings().await?;
                    }
                    _ => {}
                }
            }
        }
        self.wire.put(Out::CommandComplete(CommandComplete::new(tag)))
    }

    /// Ends the transaction by COMMIT, if `commits`, or by ROLLBACK. Returns the tag.
    async fn end_explicitly(&mut self, commits: bool) -> Result<String, Failure> {
        if std::mem::take(&mut self.is_implicit) {
            self.warn_outside_transaction()?;
        }
        let mut is_committed = false;
        if commits {
            self.end_unheld_portals();
            let committed = self.session.commit().await;
            is_committed = matches!(committed, Ok(true));
            self.settings.end(is_committed);
            self.end_portals(is_committed);
            self.follow_settings().await?;
            committed?;
        } else {
            self.end_portals(false);
            self.settings.end(false);
            self.session.roll_back()?;
            self.follow_settings().await?;
        }
        self.control.registered.end_transaction();
        Ok(if is_committed { "COMMIT" } else { "ROLLBACK" }.to_owned())
    }

    /// Warns of a COMMIT or ROLLBACK without a BEGIN.
    fn warn_outside_transaction(&mut self) -> Result<(), Failure> {
        let text = "there is no transaction in progress";
        self.warn(&Failure::new(SqlState::NO_TRANSACTION, text))
    }

    /// Begins an implicit transaction for statements that are sent together, unless one is open.
    pub(super) fn begin_implicitly(&mut self) -> Result<(), Failure> {
        if self.status() == Status::Idle {
            self.session.begin(None)?;
            self.settings.begin();
            self.is_implicit = true;
        }
        Ok(())
    }

    /// Commits the implicit transaction.
    pub(super) async fn end_implicitly(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_implicit) {
            self.end_unheld_portals();
            let committed = self.session.commit().await;
            self.settings.end(matches!(committed, Ok(true)));
            self.end_portals(matches!(committed, Ok(true)));
            committed?;
        }
        Ok(())
    }

    /// Rolls the implicit transaction back.
    pub(super) fn undo_implicitly(&mut self) {
        if std::mem::take(&mut self.is_implicit) {
            // The failure may have ended the transaction already.
            let _ended = self.session.roll_back();
            self.settings.end(false);
            self.end_portals(false);
        }
    }

    /// Begins to record changes of settings by statements that are sent together: all are undone if
    /// one of the statements fails.
    pub(super) fn begin_settings(&mut self) {
        if self.status() == Status::Idle {
            self.settings.begin();
        }
    }

    /// Ends the record of changes that [`Connection::begin_settings`] has begun, unless a
    /// transaction is still open.
    pub(super) fn end_settings(&mut self, is_committed: bool) {
        if self.status() == Status::Idle {
            self.settings.end(is_committed);
        }
    }

    /// Handles `Sync`, the end of messages that were sent together.
    pub(super) async fn sync(&mut self) -> Result<(), Failure> {
        let committed = match self.skips {
            true => {
                self.undo_implicitly();
                Ok(())
            }
            false => self.end_implicitly().await,
        };
        self.end_settings(!self.skips);
        self.skips = false;
        if self.status() == Status::Idle {
            self.end_portals(false);
        }
        if let Err(failure) = committed {
            if failure.is_fatal() {
                return Err(failure);
            }
            self.wire.put(failure.message())?;
        }
        self.ready().await
    }
}

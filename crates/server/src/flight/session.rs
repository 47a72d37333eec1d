//! A client's session: its tickets, prepared statements and transaction.
//!
//! Statements of a session start one after the other. A query then returns its rows independently;
//! a change runs to its end before the next statement starts.
//!
//! A session has at most one transaction at a time. A transaction begun by an action has a name,
//! which its statements must give; prepared statements and ingestions, for which clients give none,
//! are a part of the open transaction.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pgwire::messages::startup::SecretKey;
use terrace_sql::session::{SessionStatement, TransactionStatement};
use terrace_sql::{DATABASE, Session, SqlError, TransactionStatus};
use terrace_sys::sync::lock;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};
use tonic::Status;

use super::interrupt::Interrupt;
use super::statement::{Query, Statement};
use super::status::status_of;
use crate::failure::{Failure, SqlState};
use crate::log::Logged;
use crate::postgres::{Place, Shared, SharedSettings, furnished};
use crate::registry::Registered;

/// Maximum number of a session's queries whose rows were not fetched yet.
const TICKETS_MAX: usize = 100;
/// Maximum number of a session's prepared statements.
const STATEMENTS_MAX: usize = 10_000;
/// Length of a session's secret in bytes.
const SECRET_BYTES: usize = 32;

/// The session of a client. Locking order: `turn`, then `state`.
pub(super) struct ClientSession {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Session,
    pub(super) place: Arc<Place>,
    pub(super) registered: Registered,
    /// Held by a statement while it starts, or while it changes something.
    pub(super) turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Becomes true when the session ends.
    ended: watch::Sender<bool>,
    /// True if the client itself has ended the session.
    is_closed: AtomicBool,
    calls: AtomicUsize,
    last_call: Mutex<Instant>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    _alive: mpsc::Sender<Infallible>,
}

#[derive(Default)]
struct State {
    last: u64,
    tickets: HashMap<u64, Ticket>,
    running: HashMap<u64, Arc<Notify>>,
    prepared: HashMap<u64, Arc<Statement>>,
    /// The transaction that an action has begun.
    transaction: Option<u64>,
    savepoints: HashMap<u64, String>,
}

/// A query whose rows were not fetched yet.
struct Ticket {
    query: Query,
    issued: Instant,
}

/// A call of a session; counts as running until this value is dropped.
pub(super) struct Call(Arc<ClientSession>);

impl Call {
    pub(super) fn new(session: Arc<ClientSession>) -> Self {
        session.calls.fetch_add(1, Ordering::Relaxed);
        Self(session)
    }
}

impl Deref for Call {
    type Target = ClientSession;

    fn deref(&self) -> &ClientSession {
        &self.0
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        *lock(&self.0.last_call) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientSession {
    /// Begins the session of a user, who has logged in with a role if the database has roles.
    ///
    /// # Errors
    /// A tenant that has reached its maximum number of sessions.
    pub(super) fn begin(
        shared: Arc<Shared>,
        user: &str,
        role: Option<String>,
        permit: OwnedSemaphorePermit,
        alive: mpsc::Sender<Infallible>,
    ) -> Result<Self, Failure> {
        let mut secret = vec![0; SECRET_BYTES];
        let failed = |error| Failure::new(SqlState::INTERNAL, format!("no random bytes: {error}"));
        getrandom::fill(&mut secret).map_err(failed)?;
        let session = match &role {
            Some(role) => shared.engine.session_of(role)?,
            None => shared.engine.session()?,
        };
        session.info().introduce(&format!("Flight SQL, {user}"));
        let registered = shared.registry.add(SecretKey::Bytes(secret.into()));
        registered.introduce(user);
        let place = Arc::new(Place {
            database: DATABASE,
            user: user.to_owned(),
            role,
            number: registered.number(),
            is_secure: shared.tls.is_some(),
            settings: SharedSettings::default(),
            registry: Arc::clone(registered.registry()),
        });
        Ok(Self {
            session: furnished(session, &place),
            shared,
            place,
            registered,
            turn: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            ended: watch::Sender::new(false),
            is_closed: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            last_call: Mutex::new(Instant::now()),
            permit: Mutex::new(Some(permit)),
            _alive: alive,
        })
    }

    /// Ends the session when another connection terminates it (`pg_terminate_backend`).
    pub(super) async fn watch(session: Arc<Self>) {
        let mut ended = session.ended.subscribe();
        tokio::select! {
            () = session.registered.terminated() => session.end(),
            _ = ended.wait_for(|ended| *ended) => {}
        }
    }

    /// True if the SLA of the session has a priority.
    pub(super) fn is_urgent(&self) -> bool {
        self.session.priority() > 0
    }

    /// Ends the session: its statements fail, and its transaction is rolled back.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
        let state = std::mem::take(&mut *self.state());
        drop(state);
        if self.session.transaction_status() != TransactionStatus::Idle {
            // A statement may have ended the transaction meanwhile.
            let _ended = self.session.roll_back();
        }
        drop(self.take_place());
    }

    /// Ends the session at its client's request.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.end();
    }

    /// True if the client itself has ended the session.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Takes the connection permit of a session that has ended.
    pub(super) fn take_place(&self) -> Option<OwnedSemaphorePermit> {
        lock(&self.permit).take()
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// True while a call of the session runs.
    pub(super) fn is_called(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    /// True if the session has been without a call for longer than `limit`, if one is given, or
    /// longer than its client allows for an open transaction.
    pub(super) fn is_past(&self, limit: Option<Duration>) -> bool {
        let idle = lock(&self.last_call).elapsed();
        let has_transaction = self.session.transaction_status() != TransactionStatus::Idle;
        let own = self.place.settings.idle_in_transaction().filter(|_| has_transaction);
        !self.is_called() && own.into_iter().chain(limit).any(|limit| idle > limit)
    }

    /// Ends the queries whose rows were not fetched within `limit`.
    pub(super) fn expire(&self, limit: Duration) {
        let mut expired = Vec::new();
        let mut state = self.state();
        let late: Vec<u64> = state
            .tickets
            .iter()
            .filter(|(_, ticket)| ticket.issued.elapsed() > limit)
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            state.running.remove(&number);
            expired.extend(state.tickets.remove(&number));
        }
        drop(state);
        drop(expired);
    }

    /// Counts and logs an error. Returns it in the form that the client receives.
    pub(super) fn refuse(&self, failure: &Failure) -> Status {
        self.shared.counters.count_error(failure.state().0);
        let (request, statement) = (self.registered.number().to_string(), self.registered.shown());
        let (user, seconds) = (&self.place.user, None);
        Logged { request: &request, user, seconds, statement: &statement }.failed(failure);
        status_of(failure)
    }

    /// Begins a statement: registers it and computes its deadline.
    pub(super) fn interrupt(&self) -> Interrupt {
        let timeout = self.place.settings.statement_timeout();
        let now = tokio::time::Instant::now();
        let deadline = timeout.and_then(|timeout| now.checked_add(timeout));
        let (statement, ended) = (self.registered.begin(), self.ended.subscribe());
        Interrupt { statement, ended, timeout, deadline }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Refuses a call of a session that has ended meanwhile.
    pub(super) fn refuse_if_ended(&self) -> Result<(), Failure> {
        match self.has_ended() {
            true => Err(Failure::new(SqlState::NO_LOGIN, "the session has ended; log in again")),
            false => Ok(()),
        }
    }
}

/// Methods for tickets and prepared statements.
impl ClientSession {
    /// Keeps a query until its rows are fetched. Returns its ticket number.
    ///
    /// # Errors
    /// The session has the maximum number of tickets.
    pub(super) fn issue(&self, query: Query) -> Result<u64, Failure> {
        self.refuse_if_ended()?;
        let mut state = self.state();
        if state.tickets.len() >= TICKETS_MAX {
            let text = format!(
                "the session has {TICKETS_MAX} queries whose rows were not fetched; fetch or \
                 cancel them"
            );
            return Err(Failure::new(SqlState::TOO_MANY, text));
        }
        state.last += 1;
        let number = state.last;
        state.running.insert(number, query.end());
        state.tickets.insert(number, Ticket { query, issued: Instant::now() });
        Ok(number)
    }

    /// Returns the query of a ticket, which is used up.
    ///
    /// # Errors
    /// A ticket that belongs to no query, was used or has expired.
    pub(super) fn redeem(&self, number: u64) -> Result<Query, Failure> {
        let ticket = self.state().tickets.remove(&number);
        ticket.map(|ticket| ticket.query).ok_or_else(|| {
            let text = "the ticket is of no query of the session, was used or has expired";
            Failure::new(SqlState::NO_PORTAL, text)
        })
    }

    /// Records that a query has returned all its rows.
    pub(super) fn finished(&self, number: u64) {
        self.state().running.remove(&number);
    }

    /// Cancels the query of a ticket, whether its rows are being fetched or not. Returns false if
    /// there is none.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let mut state = self.state();
        let (ticket, running) = (state.tickets.remove(&number), state.running.remove(&number));
        drop(state);
        let is_known = ticket.is_some() || running.is_some();
        drop(ticket);
        running.inspect(|running| running.notify_one());
        is_known
    }

    /// Keeps a prepared statement. Returns its number.
    ///
    /// # Errors
    /// The session has the maximum number of prepared statements.
    pub(super) fn keep(&self, statement: Statement) -> Result<u64, Failure> {
        self.refuse_if_ended()?;
        let mut state = self.state();
        if state.prepared.len() >= STATEMENTS_MAX {
            let text = format!("a session has at most {STATEMENTS_MAX} prepared statements");
            return Err(Failure::new(SqlState::TOO_MANY, text));
        }
        state.last += 1;
        let number = state.last;
        state.prepared.insert(number, Arc::new(statement));
        Ok(number)
    }

    /// Returns the prepared statement with a number.
    ///
    /// # Errors
    /// A statement that does not exist.
    pub(super) fn prepared(&self, number: u64) -> Result<Arc<Statement>, Failure> {
        self.state().prepared.get(&number).cloned().ok_or_else(no_statement)
    }

    /// Drops a prepared statement.
    ///
    /// # Errors
    /// A statement that does not exist.
    pub(super) fn forget(&self, number: u64) -> Result<(), Failure> {
        let statement = self.state().prepared.remove(&number);
        statement.map(drop).ok_or_else(no_statement)
    }
}

fn no_statement() -> Failure {
    Failure::new(SqlState::NO_STATEMENT, "there is no prepared statement of this handle")
}

/// Methods for the transaction.
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

    /// Begins a transaction. Returns its name.
    ///
    /// # Errors
    /// A transaction that is open already.
    pub(super) async fn begin_transaction(&self) -> Result<u64, Failure> {
        let _turn = self.turn.lock().await;
        self.refuse_if_ended()?;
        self.session.begin(None)?;
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
            false => Ok(self.session.roll_back()?),
        }
    }

    /// Commits the session's transaction.
    pub(super) async fn commit(&self) -> Result<(), Failure> {
        match self.session.commit().await? {
            true => Ok(()),
            false => {
                let text = "the transaction has failed before, and was rolled back";
                Err(Failure::new(SqlState::FAILED_TRANSACTION, text))
            }
        }
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
        self.transact(TransactionStatement::Savepoint(name.to_owned())).await?;
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.savepoints.insert(number, name.to_owned());
        Ok(number)
    }

    /// Ends a savepoint: releases it, or rolls back to it.
    ///
    /// # Errors
    /// A savepoint that does not exist.
    pub(super) async fn end_savepoint(&self, id: &[u8], releases: bool) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let known = number_of(id).and_then(|number| self.state().savepoints.remove(&number));
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
            (TransactionStatement::Commit, _) => self.commit().await,
            (TransactionStatement::RollBack, _) => Ok(self.session.roll_back()?),
            (statement, _) => {
                let statement = SessionStatement::Transaction(statement);
                self.session.execute(statement).await?.collect().await?;
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
            // The transaction may have ended with its session.
            let _ended = self.client.session.roll_back();
        }
    }
}

fn no_transaction() -> Failure {
    let text = "there is no such transaction in the session, or it has ended";
    Failure::new(SqlState::NO_TRANSACTION, text)
}

/// Decodes the number in a client's handle.
pub(super) fn number_of(handle: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(handle.try_into().ok()?))
}

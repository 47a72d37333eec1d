//! A client's session.
//!
//! Statements of a session start one after the other. A query then returns its rows independently;
//! a change runs to its end before the next statement starts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pgwire::messages::startup::SecretKey;
use terrace_sql::{DATABASE, Session, TransactionStatus};
use terrace_sys::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tonic::Status;

use super::interrupt::Interrupt;
use super::prepared_statement::Statement;
use super::query::Query;
use super::status::status_of;
use crate::connection_info::ConnectionInfo;
use crate::failure::{Failure, SqlState};
use crate::log::Logged;
use crate::postgres::furnished;
use crate::registry::{End, Registered};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::shared_settings::SharedSettings;

/// Length of a session's secret in bytes.
const SECRET_BYTES: usize = 32;

/// The session of a client. Locking order: `turn`, then `state`.
pub(super) struct ClientSession {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Session,
    pub(super) place: Arc<ConnectionInfo>,
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

/// Tickets, prepared statements, transaction and savepoints of a session. Each has a number that
/// the session uses once.
#[derive(Default)]
pub(super) struct State {
    /// The last number that was assigned to a ticket, statement, transaction or savepoint.
    pub(super) last: u64,
    pub(super) tickets: HashMap<u64, Ticket>,
    pub(super) running: HashMap<u64, Arc<End>>,
    pub(super) prepared: HashMap<u64, Arc<Statement>>,
    /// The transaction that an action has begun.
    pub(super) transaction: Option<u64>,
    pub(super) savepoints: HashMap<u64, String>,
}

/// A query whose rows were not fetched yet.
pub(super) struct Ticket {
    pub(super) query: Query,
    pub(super) issued: Instant,
}

/// A running call of a session. A session that has one is not idle.
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
    /// Begins the session of `user`, whose login was verified. `role` is `None` in a database
    /// without roles; `permit` counts the session as one of the server's connections.
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
        let place = Arc::new(ConnectionInfo {
            database: DATABASE,
            user: user.to_owned(),
            role,
            number: registered.number(),
            is_secure: shared.tls.is_some(),
            settings: SharedSettings::new(Settings::of_engine(&shared.engine)),
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

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Fails if the session has ended since the call was admitted.
    pub(super) fn refuse_if_ended(&self) -> Result<(), Failure> {
        match self.has_ended() {
            true => Err(Failure::new(SqlState::NO_LOGIN, "the session has ended; log in again")),
            false => Ok(()),
        }
    }
}

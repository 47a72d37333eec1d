//! The sessions of all clients, by login token or by connection.
//!
//! A client that logs in by a handshake has a session identified by its token, whichever
//! connections it sends the token on. A client that sends its password with each call, or no
//! password in a database without roles, has a session identified by its connection, which ends
//! with it.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use terrace_sys::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::session::ClientSession;
use crate::failure::{Failure, SqlState};
use crate::shared::Shared;

/// Identity of a session's client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Token(String),
    /// A user on a connection.
    Connection(u64, String),
}

struct Entry {
    session: Arc<ClientSession>,
    /// Open connections on which calls have arrived.
    connections: HashSet<u64>,
    /// Time at which the last of them closed.
    detached: Option<Instant>,
}

/// The sessions of all clients. Locking order: `opening`, then `list`.
pub(super) struct Sessions {
    pub(super) shared: Arc<Shared>,
    list: Mutex<HashMap<Key, Entry>>,
    /// Held while a session begins, so that concurrent calls of a connection share one session.
    opening: Mutex<()>,
    last_connection: AtomicU64,
    /// Held while a password is compared.
    pub(super) hashing: tokio::sync::Mutex<()>,
    /// Held by every session: the engine is free once all clones are dropped.
    alive: mpsc::Sender<Infallible>,
}

/// An accepted connection. Dropping this value ends the sessions that belong to it alone.
pub(super) struct Connection {
    pub(super) number: u64,
    sessions: Arc<Sessions>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.sessions.closed(self.number);
    }
}

impl Sessions {
    pub(super) fn new(shared: Arc<Shared>, alive: mpsc::Sender<Infallible>) -> Self {
        let (list, opening, last_connection, hashing) = Default::default();
        Self { shared, list, opening, last_connection, hashing, alive }
    }

    /// Registers an accepted connection.
    pub(super) fn connection(self: &Arc<Self>, place: OwnedSemaphorePermit) -> Connection {
        let number = self.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        Connection { number, sessions: Arc::clone(self), _place: place }
    }

    /// Ends the sessions that belong to a closed connection alone, and detaches it from the others.
    fn closed(&self, number: u64) {
        let mut ended = Vec::new();
        self.lock().retain(|key, entry| {
            let is_of_it = matches!(key, Key::Connection(of, _) if *of == number);
            if is_of_it {
                ended.push(Arc::clone(&entry.session));
            }
            if entry.connections.remove(&number) && entry.connections.is_empty() {
                entry.detached = Some(Instant::now());
            }
            !is_of_it
        });
        ended.iter().for_each(|session| session.end());
    }

    /// Ends the sessions that have been idle or without a connection for too long, and the tickets
    /// whose rows were not fetched in time. A session of a connection stays in the list until the
    /// connection closes.
    pub(super) fn sweep(&self) {
        let limits = &self.shared.limits;
        let mut ended = Vec::new();
        self.lock().retain(|key, entry| {
            let detached = entry.detached.map(|since| since.elapsed());
            let is_detached = detached.is_some_and(|time| time > limits.session_detached_time);
            let is_of_token = matches!(key, Key::Token(_));
            let idle_time = is_of_token.then_some(limits.session_idle_time);
            let is_over = entry.session.has_ended()
                || entry.session.is_past(idle_time)
                || (is_detached && !entry.session.is_called());
            if is_over && !entry.session.has_ended() {
                ended.push(Arc::clone(&entry.session));
            }
            !is_over || !is_of_token
        });
        ended.iter().for_each(|session| session.end());
        let left: Vec<_> = self.lock().values().map(|entry| Arc::clone(&entry.session)).collect();
        left.iter().for_each(|session| session.expire(limits.unread_time));
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        let all: Vec<_> = self.lock().drain().map(|(_, entry)| entry.session).collect();
        all.iter().for_each(|session| session.end());
    }

    /// Returns the session of a token, for a call that has arrived on a connection.
    pub(super) fn of_token(
        &self,
        token: &str,
        connection: u64,
    ) -> Result<Arc<ClientSession>, Failure> {
        let mut list = self.lock();
        let known = list.get_mut(&Key::Token(token.to_owned()));
        let Some(entry) = known.filter(|entry| !entry.session.has_ended()) else {
            let text = "the token is of no session, or of one that has ended; log in again";
            return Err(Failure::new(SqlState::NO_LOGIN, text));
        };
        entry.connections.insert(connection);
        entry.detached = None;
        Ok(Arc::clone(&entry.session))
    }

    /// Returns the session of a key, for a call that has arrived on a connection. Begins one if
    /// there is none.
    pub(super) fn open(
        &self,
        key: Key,
        connection: u64,
        user: &str,
        role: Option<String>,
    ) -> Result<Arc<ClientSession>, Failure> {
        let _one_at_a_time = lock(&self.opening);
        let known = self.lock().get(&key).map(|entry| Arc::clone(&entry.session));
        match known {
            Some(session) if !session.has_ended() => return Ok(session),
            // Its open transaction would be lost silently if a new session began.
            Some(session) if !session.is_closed() => {
                let text = "the session of the connection has ended; connect again";
                return Err(Failure::new(SqlState::TERMINATED, text));
            }
            _ => {}
        }
        let place = self.place()?;
        let alive = self.alive.clone();
        let session = ClientSession::begin(Arc::clone(&self.shared), user, role, place, alive)?;
        let session = Arc::new(session);
        tokio::spawn(ClientSession::watch(Arc::clone(&session)));
        let connections = HashSet::from([connection]);
        let entry = Entry { session: Arc::clone(&session), connections, detached: None };
        // The client has closed the previous session.
        let _closed = self.lock().insert(key, entry);
        Ok(session)
    }

    /// Returns a connection permit: a free one, or else that of the session that has been without
    /// an open connection for the longest time, which is ended.
    fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let free = || Arc::clone(&self.shared.places).try_acquire_owned().ok();
        if let Some(place) = free() {
            return Ok(place);
        }
        let left = {
            let mut list = self.lock();
            let idle = list.iter().filter(|(_, entry)| !entry.session.is_called());
            let left = idle.filter_map(|(key, entry)| Some((entry.detached?, key)));
            let key = left.min_by_key(|(since, _)| *since).map(|(_, key)| key.clone());
            key.and_then(|key| list.remove(&key))
        };
        if let Some(Entry { session, .. }) = left {
            session.end();
            if let Some(place) = session.take_place().or_else(free) {
                return Ok(place);
            }
        }
        self.shared.counters.count_refused();
        let limit = self.shared.limits.connections;
        let text = format!("the server has {limit} connections, as many as it takes");
        Err(Failure::new(SqlState::TOO_MANY, text))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        lock(&self.list)
    }
}

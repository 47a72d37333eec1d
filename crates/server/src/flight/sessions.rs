//! All sessions of clients, by login token and by connection.
//!
//! A client that logs in by a handshake has a session identified by its token, whichever
//! connections it sends the token on. A client that sends its password with each call, or no
//! password in a database without roles, has a session identified by its connection, which ends
//! with it.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use terrace_sys::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

use super::connection::{Connection, Facts};
use super::session::{Call, ClientSession};
use super::status::status_of;
use crate::failure::{Failure, SqlState};
use crate::login;
use crate::postgres::Shared;
use crate::stream::Peer;

/// Path of the call that logs in.
const HANDSHAKE: &str = "/Handshake";
/// Number of random bytes in a token.
const TOKEN_BYTES: usize = 32;
/// Delay before a failed login is reported, which slows down password guessing.
const PAUSE: Duration = Duration::from_millis(250);

/// The token of a session that a handshake has begun.
#[derive(Clone, Debug)]
pub(super) struct Token(pub(super) String);

/// Identity of a session's client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
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
    shared: Arc<Shared>,
    list: Mutex<HashMap<Key, Entry>>,
    /// Held while a session begins, so that concurrent calls of a connection share one session.
    opening: Mutex<()>,
    last_connection: AtomicU64,
    /// Held while a password is compared.
    hashing: tokio::sync::Mutex<()>,
    /// Held by every session: the engine is free once all clones are dropped.
    alive: mpsc::Sender<Infallible>,
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
    pub(super) fn closed(&self, number: u64) {
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

    /// Admits a call: attaches its session, or a new token if the call is a login.
    ///
    /// # Errors
    /// The errors that the client receives.
    async fn admit(&self, request: &mut http::Request<Body>) -> Result<(), Status> {
        let facts = request.extensions().get::<Facts>().cloned();
        let facts = facts.ok_or_else(|| Status::internal("a call without a connection"))?;
        let refused = |failure: Failure| {
            self.shared.counters.count_error(failure.state().0);
            status_of(&failure)
        };
        if request.uri().path().ends_with(HANDSHAKE) {
            let (user, role) = self.log_in(request.headers(), &facts).await.map_err(refused)?;
            let token = token().map_err(refused)?;
            self.open(Key::Token(token.clone()), &facts, &user, role).map_err(refused)?;
            facts.is_in.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(Token(token));
            return Ok(());
        }
        let session = match login::authorization(request.headers()) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                self.of_token(token, &facts).map_err(refused)?
            }
            _ => {
                let (user, role) = self.log_in(request.headers(), &facts).await.map_err(refused)?;
                let key = Key::Connection(facts.number, user.clone());
                self.open(key, &facts, &user, role).map_err(refused)?
            }
        };
        facts.is_in.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Arc::new(Call::new(session)));
        Ok(())
    }

    /// Returns the user and the role of a call, once the password is verified. The role is `None`
    /// in a database without roles, which serves only programs on the same machine.
    async fn log_in(
        &self,
        headers: &http::HeaderMap,
        facts: &Facts,
    ) -> Result<(String, Option<String>), Failure> {
        let has_roles = !self.shared.engine.catalog().roles().is_empty();
        if matches!(facts.peer, Peer::Remote(_)) && !(has_roles && facts.is_secure) {
            let text = "other machines are served with TLS and logins alone";
            return Err(Failure::new(SqlState::NO_LOGIN, text));
        }
        let given = login::basic(headers);
        if !has_roles {
            return Ok((given.map(|(user, _)| user).unwrap_or_default(), None));
        }
        let Some((user, password)) = given else {
            let text = "it takes a login: name and password by a handshake, or with each call \
                        (Authorization: Basic)";
            return Err(Failure::new(SqlState::NO_LOGIN, text));
        };
        if self.is_password_of(user.clone(), password).await? {
            return Ok((user.clone(), Some(user)));
        }
        sleep(PAUSE).await;
        let text = format!("password authentication failed for user {user:?}");
        Err(Failure::new(SqlState::WRONG_PASSWORD, text))
    }

    /// Compares a password with that of a role. Hashing takes milliseconds: it runs in a blocking
    /// thread, one at a time, so that password guessing does not keep other clients from being
    /// served.
    async fn is_password_of(&self, user: String, password: String) -> Result<bool, Failure> {
        let _turn = self.hashing.lock().await;
        let shared = Arc::clone(&self.shared);
        let compared = tokio::task::spawn_blocking(move || {
            let pair = (user.as_str(), password.as_str());
            login::is_password_of(shared.engine.catalog(), &shared.secret, pair, |_| true)
        });
        compared.await.map_err(|error| Failure::new(SqlState::INTERNAL, error.to_string()))
    }

    /// Returns the session of a token.
    fn of_token(&self, token: &str, facts: &Facts) -> Result<Arc<ClientSession>, Failure> {
        let mut list = self.lock();
        let known = list.get_mut(&Key::Token(token.to_owned()));
        let Some(entry) = known.filter(|entry| !entry.session.has_ended()) else {
            let text = "the token is of no session, or of one that has ended; log in again";
            return Err(Failure::new(SqlState::NO_LOGIN, text));
        };
        entry.connections.insert(facts.number);
        entry.detached = None;
        Ok(Arc::clone(&entry.session))
    }

    /// Returns the session of a key, and begins one if there is none.
    fn open(
        &self,
        key: Key,
        facts: &Facts,
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
        let connections = HashSet::from([facts.number]);
        let entry = Entry { session: Arc::clone(&session), connections, detached: None };
        // The client has closed the previous session.
        let _closed = self.lock().insert(key, entry);
        Ok(session)
    }

    /// Returns a connection permit: a free one, or that of a session whose client has no open
    /// connection.
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

/// Returns a new token.
fn token() -> Result<String, Failure> {
    let mut bytes = [0; TOKEN_BYTES];
    let failed = |error| Failure::new(SqlState::INTERNAL, format!("no random bytes: {error}"));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes.iter().fold(String::with_capacity(2 * TOKEN_BYTES), |mut text, byte| {
        // Writing to a text does not fail.
        let _written = write!(text, "{byte:02x}");
        text
    }))
}

/// A service whose calls have a session. Other calls are refused before their messages are read.
#[derive(Clone)]
pub(super) struct Login<S> {
    service: S,
    sessions: Arc<Sessions>,
}

impl<S> Login<S> {
    pub(super) fn new(service: S, sessions: Arc<Sessions>) -> Self {
        Self { service, sessions }
    }
}

impl<S: NamedService> NamedService for Login<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Login<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        // The ready service answers; its copy becomes ready for the next call.
        let copy = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, copy);
        let sessions = Arc::clone(&self.sessions);
        async move {
            match sessions.admit(&mut request).await {
                Ok(()) => service.call(request).await,
                Err(status) => Ok(status.into_http()),
            }
        }
        .boxed()
    }
}

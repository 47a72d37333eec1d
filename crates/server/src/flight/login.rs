//! Logins: finds or begins the session of each call before its message is read.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

use super::connection::Facts;
use super::session::Call;
use super::sessions::{Key, Sessions};
use super::status::status_of;
use crate::failure::{Failure, SqlState};
use crate::login;
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

/// A gRPC service behind the login: attaches a session to each call, and refuses a call without a
/// valid login before its message is read.
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

impl Sessions {
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
            self.open(Key::Token(token.clone()), facts.number, &user, role).map_err(refused)?;
            facts.is_in.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(Token(token));
            return Ok(());
        }
        let session = match login::authorization(request.headers()) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                self.of_token(token, facts.number).map_err(refused)?
            }
            _ => {
                let (user, role) = self.log_in(request.headers(), &facts).await.map_err(refused)?;
                let key = Key::Connection(facts.number, user.clone());
                self.open(key, facts.number, &user, role).map_err(refused)?
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

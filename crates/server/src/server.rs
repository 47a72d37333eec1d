//! Listeners of a server: they accept connections, run logins and shut down.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use terrace_sql::Engine;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use crate::flight::FlightListener;
use crate::http::HttpListener;
use crate::limits::Limits;
use crate::postgres::{Shared, begin};
use crate::registry::Registry;
use crate::runtimes::Runtimes;
use crate::stream::{self, Accepted};
use crate::tls::Tls;

/// Pause of a listener after a failed accept, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Errors that prevent a server from listening.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address that other machines can reach, without TLS.
    #[error(
        "listening at {0} is not possible without TLS: passwords and rows could be read on their \
         way; name a certificate and its key by --tls-cert and --tls-key, or listen at 127.0.0.1, \
         [::1] or a Unix socket"
    )]
    NoTls(SocketAddr),
    /// An address that other machines can reach, of a database without logins.
    #[error(
        "listening at {0} is not possible without logins: all who reach the address could read \
         and change everything; make a role first, by terrace sql: CREATE ROLE admin SUPERUSER \
         LOGIN PASSWORD '...'"
    )]
    NoLogins(SocketAddr),
    /// The system provides no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// An address for HTTP that other machines can reach.
    #[error(
        "serving HTTP at {0} is not possible: it has no encryption, and passwords and statements \
         could be read on their way; listen at 127.0.0.1 or [::1], and reach it by a \
         tunnel, such as ssh -L 8080:127.0.0.1:8080"
    )]
    OpenHttp(SocketAddr),
    /// The system refuses to listen at an address.
    #[error("listening at {place}: {source}")]
    Listen {
        /// The address or path.
        place: String,
        /// The system's error.
        source: io::Error,
    },
}

/// An address or socket that a server listens at.
#[derive(Debug)]
pub enum Listener {
    /// An address of this machine.
    Tcp(TcpListener),
    /// A Unix socket, whose file is removed when the listener is dropped.
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket; dropping this value removes it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    port: u16,
}

impl SocketFile {
    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory, which clients give as their host.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the port that clients give; it is only a part of the file's name.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket's file stays");
        }
    }
}

impl Listener {
    /// Listens at an address for clients of `server`.
    ///
    /// # Errors
    /// [`ServerError::NoTls`] and [`ServerError::NoLogins`] for an address that other machines can
    /// reach, if the server has no certificate or its database has no role that can administer it;
    /// [`ServerError::Listen`] when the address is taken.
    pub async fn tcp(address: SocketAddr, server: &Server) -> Result<Self, ServerError> {
        Ok(Self::Tcp(bind(address, server).await?))
    }

    /// Listens at a Unix socket in a directory, under the name that PostgreSQL's clients look for:
    /// `.s.PGSQL.5432`. A stale socket of that name is replaced.
    ///
    /// # Errors
    /// [`ServerError::Listen`] when the path is taken or cannot be written.
    pub fn unix(directory: &Path, port: u16) -> Result<Self, ServerError> {
        let path = directory.join(format!(".s.PGSQL.{port}"));
        let failed = |source| ServerError::Listen { place: path.display().to_string(), source };
        remove_stale(&path).map_err(failed)?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        Ok(Self::Unix(listener, SocketFile { path, port }))
    }

    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => stream::tcp(listener.accept().await?.0),
            Self::Unix(listener, _) => stream::unix(listener.accept().await?.0),
        }
    }
}

/// Listens at an address, if it is safe for clients of `server` to reach it.
///
/// # Errors
/// As [`Listener::tcp`].
pub(crate) async fn bind(address: SocketAddr, server: &Server) -> Result<TcpListener, ServerError> {
    let Shared { engine, tls, .. } = server.shared.as_ref();
    if !address.ip().is_loopback() {
        if tls.is_none() {
            return Err(ServerError::NoTls(address));
        }
        if !engine.catalog().roles().iter().any(|(_, role)| role.is_administrator()) {
            return Err(ServerError::NoLogins(address));
        }
    }
    let failed = |source| ServerError::Listen { place: address.to_string(), source };
    TcpListener::bind(address).await.map_err(failed)
}

/// Removes the socket file of a server that has ended without removing it.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = |meta: std::fs::Metadata| meta.file_type().is_socket();
    if !std::fs::symlink_metadata(path).is_ok_and(is_socket) {
        return Ok(());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Ok(()),
    }
}

/// A server over one engine.
pub struct Server {
    shared: Arc<Shared>,
    http: Option<HttpListener>,
    flight: Option<FlightListener>,
    statements: Option<Handle>,
    urgent: Option<Handle>,
}

impl Server {
    /// Creates a server that gives each connection a session of the engine. With `tls`, TCP
    /// connections must use TLS.
    ///
    /// # Errors
    /// [`ServerError::Random`].
    pub fn new(engine: Engine, limits: Limits, tls: Option<Arc<Tls>>) -> Result<Self, ServerError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| ServerError::Random(error.to_string()))?;
        let (registry, counters) = (Arc::new(Registry::default()), Arc::default());
        let places = Arc::new(Semaphore::new(limits.connections));
        let shared = Shared { engine, registry, limits, tls, secret, counters, places };
        Ok(Self {
            shared: Arc::new(shared),
            http: None,
            flight: None,
            statements: None,
            urgent: None,
        })
    }

    /// True if TCP connections must use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.shared.tls.is_some()
    }

    /// Adds metrics, health and the dashboard over HTTP.
    #[must_use]
    pub fn with_http(self, listener: HttpListener) -> Self {
        Self { http: Some(listener), ..self }
    }

    /// Adds a listener for Arrow Flight SQL clients.
    #[must_use]
    pub fn with_flight(self, listener: FlightListener) -> Self {
        Self { flight: Some(listener), ..self }
    }

    /// Runs statements in another runtime than the server's own. Operators keep a runtime's threads
    /// busy for long; logins, requests to cancel a statement and the server's shutdown should not
    /// have to wait for that.
    #[must_use]
    pub fn with_statements_in(self, runtime: &Handle) -> Self {
        Self { statements: Some(runtime.clone()), ..self }
    }

    /// Runs the statements of sessions with a priority in a separate runtime, where they do not
    /// wait for steps of other statements. Give it as many threads as the other runtime.
    #[must_use]
    pub fn with_urgent_statements_in(self, runtime: &Handle) -> Self {
        Self { urgent: Some(runtime.clone()), ..self }
    }

    /// Serves connections until the first item of `ends`. Then each connection ends as soon as it
    /// waits for its client; connections whose statements still run after
    /// [`Limits::shutdown_time`], or after a second item, are closed, which cancels the statements.
    /// No part of the server uses the engine after this returns.
    pub async fn run(self, listeners: Vec<Listener>, ends: impl Stream<Item = ()>) {
        let mut ends = std::pin::pin!(ends.fuse());
        let (stop, stopped) = watch::channel(Stop::No);
        let statements = Runtimes::new(self.statements.unwrap_or_else(Handle::current));
        let statements = match self.urgent {
            Some(urgent) => statements.with_urgent(urgent),
            None => statements,
        };
        let mut serving = JoinSet::new();
        for listener in listeners {
            let door = Door { shared: Arc::clone(&self.shared), stopped: stopped.clone() };
            serving.spawn(door.keep(listener, statements.clone()));
        }
        if let Some(http) = self.http {
            serving.spawn(http.serve(Arc::clone(&self.shared), stopped.clone()));
        }
        if let Some(flight) = self.flight {
            serving.spawn(flight.serve(Arc::clone(&self.shared), stopped.clone(), statements));
        }
        drop(stopped);
        ends.next().await;
        stop.send_replace(Stop::Soon);
        let ended = async { while serving.join_next().await.is_some() {} };
        let mut ended = std::pin::pin!(ended);
        let hurried = async {
            if ends.next().await.is_none() {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = &mut ended => return,
            () = hurried => {}
            () = sleep(self.shared.limits.shutdown_time) => {
                tracing::warn!("statements that still run are cancelled");
            }
        }
        stop.send_replace(Stop::Now);
        ended.await;
    }
}

/// Stages of a server's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The server is serving.
    No,
    /// The server shuts down; running statements may finish.
    Soon,
    /// Running statements are cancelled.
    Now,
}

/// Waits until the server shuts down.
pub(crate) async fn stopping(stopped: &mut watch::Receiver<Stop>) {
    // An error means that the sender, and with it the server, is gone.
    let _gone = stopped.wait_for(|stop| *stop != Stop::No).await;
}

/// The accept loop of one listener.
struct Door {
    shared: Arc<Shared>,
    stopped: watch::Receiver<Stop>,
}

impl Door {
    /// Accepts connections, runs their logins and serves them until the server shuts down and they
    /// have ended.
    async fn keep(mut self, listener: Listener, statements: Runtimes) {
        let (mut logins, mut connections) = (JoinSet::new(), JoinSet::new());
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(_) if logins.len() >= self.shared.limits.logins => {
                        tracing::warn!("a connection beyond the limit of logins is closed");
                    }
                    Ok(accepted) => {
                        let shared = Arc::clone(&self.shared);
                        logins.spawn(begin(shared, accepted, self.stopped.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be taken");
                        sleep(PAUSE).await;
                    }
                },
                Some(ended) = logins.join_next() => {
                    if let Some(connection) = unless_failed(ended).flatten() {
                        connections.spawn(connection.run(statements.clone()));
                    }
                }
                Some(ended) = connections.join_next() => drop(unless_failed(ended)),
                () = stopping(&mut self.stopped) => break,
            }
        }
        drop(listener);
        logins.shutdown().await;
        let ended = async {
            while let Some(ended) = connections.join_next().await {
                unless_failed(ended);
            }
        };
        tokio::select! {
            () = ended => {}
            _ = self.stopped.wait_for(|stop| *stop == Stop::Now) => {}
        }
        connections.shutdown().await;
    }
}

/// Returns the result of a task; `None`, with a log message, if the task panicked.
fn unless_failed<T>(ended: Result<T, JoinError>) -> Option<T> {
    ended.inspect_err(|error| tracing::error!(%error, "a connection has failed")).ok()
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("free", &self.shared.places.available_permits())
            .finish_non_exhaustive()
    }
}

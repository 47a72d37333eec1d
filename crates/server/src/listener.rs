//! Listeners of a server: they accept connections, run logins and shut down.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use crate::error::ServerError;
use crate::postgres::begin;
use crate::runtimes::Runtimes;
use crate::shared::Shared;
use crate::shutdown::{Stop, stopping};
use crate::stream::{self, Accepted};

/// Pause of a listener after a failed accept, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

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

    /// Returns the directory of the file, which PostgreSQL's clients take as their host.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the port that clients name; it is only a part of the file's name.
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

/// Listens at an address, if it is safe for clients of the server to reach it.
///
/// # Errors
/// As [`Listener::tcp`].
pub(crate) async fn bind(address: SocketAddr, shared: &Shared) -> Result<TcpListener, ServerError> {
    let Shared { engine, tls, .. } = shared;
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

/// The accept loop of one listener.
pub(crate) struct Door {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stopped: watch::Receiver<Stop>,
}

impl Door {
    /// Accepts connections, runs their logins and serves them until the server shuts down and they
    /// have ended.
    pub(crate) async fn keep(mut self, listener: Listener, statements: Runtimes) {
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

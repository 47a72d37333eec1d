//! `terrace serve`: one engine for clients of PostgreSQL's protocol.

use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use terrace_server::{HttpListener, Limits, Listener, Server, Tls};
use terrace_sql::{Engine, EngineConfig, ProcessMemory};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::error::Result;
use crate::settings::Settings;

/// Arguments of `terrace serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Addresses to listen at (repeatable); other machines are served with TLS and logins alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5432")]
    pub listen: Vec<SocketAddr>,

    /// A directory for a Unix socket, whose name has the port of the first address
    #[arg(long, value_name = "DIR")]
    pub socket: Option<PathBuf>,

    /// The certificate of the server in PEM, with those that it stands on; connections by TCP have
    /// to use TLS then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The key of the certificate in PEM, a file that its owner alone may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// An address of this machine for metrics, health and the dashboard by HTTP
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,

    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    pub connections: usize,
}

/// Serves clients until SIGINT or SIGTERM.
///
/// # Errors
/// An engine that does not open, an address that is taken or refused, and what is not written when
/// the engine closes.
pub fn run(runtime: &Runtime, settings: &Settings, args: &ServeArgs) -> Result<()> {
    // Nothing but this engine is in the process, and jemalloc is its allocator.
    let process_memory = ProcessMemory::Allocator;
    let engine = Engine::open(&EngineConfig { process_memory, ..settings.engine() })?;
    let served = runtime.block_on(serve(engine.clone(), args));
    let closed = engine.close();
    served?;
    Ok(closed?)
}

async fn serve(engine: Engine, args: &ServeArgs) -> Result<()> {
    let ends = interrupted()?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Arc::new(Tls::open(certificate, key)?)),
        _ => None,
    };
    let limits = Limits { connections: args.connections, ..Limits::default() };
    let server = Server::new(engine, limits, tls.clone())?;
    let mut listeners = Vec::new();
    for address in &args.listen {
        listeners.push(Listener::tcp(*address, &server).await?);
    }
    if let Some(directory) = &args.socket {
        listeners.push(Listener::unix(directory, args.listen.first().map_or(5432, |a| a.port()))?);
    }
    for listener in &listeners {
        writeln!(io::stdout(), "{}", connects(listener)?)?;
    }
    let reloads = tls.map(reloads).transpose()?;
    with_http(server, args.http).await?.run(listeners, ends).await;
    if let Some(reloads) = reloads {
        reloads.abort();
    }
    Ok(())
}

/// The server, with HTTP at an address if there is one.
async fn with_http(server: Server, address: Option<SocketAddr>) -> Result<Server> {
    let Some(address) = address else { return Ok(server) };
    let listener = HttpListener::tcp(address).await?;
    let address = listener.address()?;
    writeln!(io::stdout(), "dashboard and metrics at http://{address}/")?;
    Ok(server.with_http(listener))
}

/// The address of a listener, and the command that connects psql to it.
fn connects(listener: &Listener) -> io::Result<String> {
    Ok(match listener {
        Listener::Tcp(listener) => {
            let address = listener.local_addr()?;
            format!("listening at {address}: psql -h {} -p {} main", address.ip(), address.port())
        }
        Listener::Unix(_, file) => {
            let (directory, port) = (file.directory().display(), file.port());
            format!("listening at {}: psql -h {directory} -p {port} main", file.path().display())
        }
    })
}

/// Reads the certificate again at each SIGHUP.
fn reloads(tls: Arc<Tls>) -> io::Result<JoinHandle<()>> {
    let mut hangups = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            match tls.reload() {
                Ok(()) => tracing::info!("the certificate was read again"),
                Err(error) => tracing::error!(%error, "the certificate stays as it was"),
            }
        }
    }))
}

/// Ends with the first signal that asks for the end of the server.
fn interrupted() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

//! `terrace serve`: one engine for clients of PostgreSQL's protocol.

use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use terrace_server::{HttpListener, Limits, Listener, Server};
use terrace_sql::{Engine, EngineConfig, ProcessMemory};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::Result;
use crate::settings::Settings;

/// Arguments of `terrace serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Addresses to listen at, of this machine alone (repeatable)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5432")]
    pub listen: Vec<SocketAddr>,

    /// A directory for a Unix socket, whose name has the port of the first address
    #[arg(long, value_name = "DIR")]
    pub socket: Option<PathBuf>,

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
    let mut listeners = Vec::new();
    for address in &args.listen {
        listeners.push(Listener::tcp(*address).await?);
    }
    if let Some(directory) = &args.socket {
        listeners.push(Listener::unix(directory, args.listen.first().map_or(5432, |a| a.port()))?);
    }
    for listener in &listeners {
        writeln!(io::stdout(), "{}", connects(listener)?)?;
    }
    let limits = Limits { connections: args.connections, ..Limits::default() };
    with_http(Server::new(engine, limits), args.http).await?.run(listeners, ends).await;
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

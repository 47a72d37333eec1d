//! `terrace serve`: one engine for clients of PostgreSQL's protocol, Arrow Flight SQL and HTTP.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use terrace_server::{FlightListener, HttpListener, Limits, Listener, Server, Tls};
use terrace_sql::{Engine, EngineConfig, ProcessMemory};
use terrace_sys::time_slice;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::error::Result;
use crate::runtime;
use crate::serve_args::ServeArgs;
use crate::settings::Settings;

/// Time slice of the threads that accept clients. They work for some 10 us at a time: with the
/// kernel's slice of about 3 ms they wait for as long behind a thread that computes.
const CLIENT_SLICE: Duration = Duration::from_micros(300);
/// Maximum number of threads that accept clients, wait for them, and run short requests.
const CLIENT_THREADS_MAX: usize = 8;

/// Serves clients until SIGINT or SIGTERM. Statements run in the runtime `statements`, and those of
/// sessions with a priority in a second runtime with as many threads. Connections are served by a
/// third one, so that logins and requests to cancel do not wait for operators.
///
/// # Errors
/// Fails if the engine does not open, an address is in use or refused, or data cannot be written
/// when the engine closes.
pub fn run(statements: &Runtime, settings: &Settings, args: &ServeArgs) -> Result<()> {
    // The process runs only this engine, and jemalloc is its allocator.
    let process_memory = ProcessMemory::Allocator;
    let engine = Engine::open(&EngineConfig { process_memory, ..settings.engine() })?;
    let clients = Builder::new_multi_thread()
        .worker_threads((settings.threads.get() / 2).clamp(2, CLIENT_THREADS_MAX))
        .thread_name("terrace-clients")
        // Without it, they still run; the kernel decides when.
        .on_thread_start(|| drop(time_slice::set(CLIENT_SLICE)))
        .enable_all()
        .build()?;
    let urgent = runtime::create("terrace-urgent", settings)?;
    let runtimes = (statements.handle(), urgent.handle());
    let served = clients.block_on(serve(engine.clone(), settings, args, runtimes));
    let closed = engine.close();
    urgent.shutdown_timeout(runtime::SHUTDOWN);
    served?;
    Ok(closed?)
}

async fn serve(
    engine: Engine,
    settings: &Settings,
    args: &ServeArgs,
    (statements, urgent): (&Handle, &Handle),
) -> Result<()> {
    let ends = interrupts()?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Arc::new(Tls::open(certificate, key)?)),
        _ => None,
    };
    let shutdown_time = Duration::from_secs(args.shutdown_time);
    let logged_time = args.log_statements.map(Duration::from_secs_f64);
    let connections = args.connections;
    let limits = Limits { connections, shutdown_time, logged_time, ..Limits::default() };
    let server = Server::new(engine, limits, tls.clone())?;
    let server = server.with_statements_in(statements).with_urgent_statements_in(urgent);
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
    let server = with_flight(server, args.flight.or(settings.flight)).await?;
    with_http(server, args.http).await?.run(listeners, ends).await;
    if let Some(reloads) = reloads {
        reloads.abort();
    }
    Ok(())
}

/// Adds a listener for metrics and the dashboard to the server, if `address` is given.
async fn with_http(server: Server, address: Option<SocketAddr>) -> Result<Server> {
    let Some(address) = address else { return Ok(server) };
    let listener = HttpListener::tcp(address).await?;
    let address = listener.address()?;
    writeln!(io::stdout(), "dashboard and metrics at http://{address}/")?;
    Ok(server.with_http(listener))
}

/// Adds a listener for Arrow Flight SQL to the server, if `address` is given.
async fn with_flight(server: Server, address: Option<SocketAddr>) -> Result<Server> {
    let Some(address) = address else { return Ok(server) };
    let listener = FlightListener::tcp(address, &server).await?;
    let location = listener.location()?;
    let connect = format!("adbc_driver_flightsql.dbapi.connect(\"{location}\")");
    writeln!(io::stdout(), "Arrow Flight SQL at {location}: {connect}")?;
    Ok(server.with_flight(listener))
}

/// Returns the line that is printed for a listener: its address, and the psql command that connects
/// to it.
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

/// Reloads the certificate on each SIGHUP.
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

/// Returns a stream of the signals that stop the server.
fn interrupts() -> io::Result<impl Stream<Item = ()>> {
    let signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(stream::unfold(signals, async |mut signals| {
        tokio::select! {
            _ = signals.0.recv() => {}
            _ = signals.1.recv() => {}
        }
        Some(((), signals))
    }))
}

//! The listener: accepts connections until the server shuts down.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as SystemListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder as RuntimeBuilder;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};
use tonic::transport::Server as Grpc;

use super::calls::Front;
use super::connection::Io;
use super::login::Login;
use super::sessions::{Connection, Sessions};
use crate::runtimes::Runtimes;
use crate::shared::Shared;
use crate::shutdown::{Stop, stopping};
use crate::stream::{self, Accepted};

/// Maximum number of concurrent calls of a connection.
const CALLS_MAX: u32 = 100;
/// Maximum size in bytes of a call's headers.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// HTTP/2 flow-control windows of a call and of a connection: bytes that a client may send ahead.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// HTTP/2 keepalive: idle time before a ping, and time that the client has to answer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_TIME_MAX: Duration = Duration::from_secs(30);
/// Pause after a failed accept, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval between two sweeps of expired sessions and tickets.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of threads that send and receive.
const THREADS_MAX: usize = 4;

/// Runs the listener: the body of the thread.
///
/// # Errors
/// The system refuses a runtime or the listener.
pub(super) fn run(
    listener: SystemListener,
    shared: Arc<Shared>,
    stopped: watch::Receiver<Stop>,
    statements: Runtimes,
) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = RuntimeBuilder::new_multi_thread()
        .worker_threads((cores / 4).clamp(1, THREADS_MAX))
        .thread_name("terrace-flight")
        .enable_all()
        .build()?;
    let (alive, mut ended) = mpsc::channel(1);
    let served = runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        listen(listener, shared, stopped, statements, alive).await;
        Ok(())
    });
    // The tasks of connections are dropped with the runtime; those of statements end soon after.
    drop(runtime);
    let _none_is_left = ended.blocking_recv();
    served
}

/// Serves clients until the server shuts down and their calls have ended.
async fn listen(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<Stop>,
    statements: Runtimes,
    alive: mpsc::Sender<Infallible>,
) {
    let sessions = Arc::new(Sessions::new(Arc::clone(&shared), alive));
    let (sender, incoming) = mpsc::channel(1);
    let service = FlightServiceServer::new(Front::new(statements))
        .max_decoding_message_size(shared.limits.message_bytes);
    let mut stopping_too = stopped.clone();
    let serving = Grpc::builder()
        .max_concurrent_streams(CALLS_MAX)
        .http2_max_header_list_size(HEADERS_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIME_MAX))
        .add_service(Login::new(service, Arc::clone(&sessions)))
        .serve_with_incoming_shutdown(Incoming(incoming), async move {
            stopping(&mut stopping_too).await;
        });
    let mut tasks = JoinSet::new();
    let door = Door { shared, sessions: Arc::clone(&sessions), sender, stopped: stopped.clone() };
    tasks.spawn(door.keep(listener));
    tasks.spawn(sweep(Arc::clone(&sessions)));
    tokio::select! {
        ended = serving => {
            if let Err(error) = ended {
                tracing::error!(%error, "Flight SQL has ended");
            }
        }
        _ = stopped.wait_for(|stop| *stop == Stop::Now) => {}
    }
    tasks.shutdown().await;
    sessions.end_all();
}

/// Ends expired sessions and tickets as long as it runs.
async fn sweep(sessions: Arc<Sessions>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    loop {
        ticks.tick().await;
        sessions.sweep();
    }
}

/// Stream of accepted connections for gRPC.
struct Incoming(mpsc::Receiver<Io>);

impl Stream for Incoming {
    type Item = io::Result<Io>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|io| io.map(Ok))
    }
}

/// The accept loop.
struct Door {
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    sender: mpsc::Sender<Io>,
    stopped: watch::Receiver<Stop>,
}

impl Door {
    /// Accepts connections until the server shuts down.
    async fn keep(mut self, listener: TcpListener) {
        let limits = &self.shared.limits;
        let places = Arc::new(Semaphore::new(limits.connections + limits.logins));
        let mut handshakes = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                        Ok(place) => {
                            let connection = self.sessions.connection(place);
                            handshakes.spawn(self.welcome(stream, connection));
                        }
                        Err(_full) => {
                            tracing::warn!("a connection beyond the limit of logins is closed");
                        }
                    },
                    Err(error) => {
                        tracing::warn!(%error, "a connection by Flight SQL could not be taken");
                        sleep(PAUSE).await;
                    }
                },
                Some(ended) = handshakes.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection by Flight SQL has failed");
                    }
                }
                () = stopping(&mut self.stopped) => break,
            }
        }
        handshakes.shutdown().await;
    }

    /// Runs the TLS handshake if the server has a certificate, and passes the connection on to
    /// gRPC.
    fn welcome(
        &self,
        stream: TcpStream,
        connection: Connection,
    ) -> impl Future<Output = ()> + use<> {
        let (shared, sender) = (Arc::clone(&self.shared), self.sender.clone());
        async move {
            let secured = async {
                let Accepted { stream, peer, .. } = stream::tcp(stream)?;
                let time = shared.limits.login_time;
                Ok::<_, io::Error>(match &shared.tls {
                    None => Io::new(stream, connection, peer, false, time),
                    Some(tls) => {
                        let stream = tls.current().http2.accept(stream).await?;
                        Io::new(Box::new(stream), connection, peer, true, time)
                    }
                })
            };
            match timeout(shared.limits.login_time, secured).await {
                Ok(Ok(io)) => {
                    let _ended = sender.send(io).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "a connection by Flight SQL has failed"),
                Err(_late) => tracing::debug!("securing a connection has taken too long"),
            }
        }
    }
}

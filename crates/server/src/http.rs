//! Metrics, health and a dashboard over HTTP/1.1, for clients on this machine.
//!
//! | module | concept |
//! |---|---|
//! | `access` | refused requests: host names of other machines, pages of other sites |
//! | `dashboard` | the files of the page |
//! | `deadline` | write timeout for clients that stop reading |
//! | `events` | the ticker, which sends server-sent events to its clients |
//! | `exposition` | Prometheus' text format |
//! | `history` | samples of the last ten minutes |
//! | `metrics` | the metrics |
//! | `process` | the memory of the process |
//! | `service` | routing of requests to responses |
//! | `state` | the state of the engine, as the page shows it |
//!
//! A separate thread answers the requests: operators of queries may keep all threads of the
//! server's runtime busy for long, and that is when the page and its buttons are needed.
//!
//! Every part of a request is bounded: connections, bytes of the head, headers, the time for a
//! head, and the time that a response may stay unread. Requests have no body.

mod access;
mod dashboard;
mod deadline;
mod events;
mod exposition;
mod history;
mod metrics;
mod process;
mod service;
mod state;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as SystemListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder as RuntimeBuilder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::error::ServerError;
use crate::shared::Shared;
use crate::shutdown::{Stop, stopping};
use deadline::WriteDeadline;
use events::Hub;
use service::Site;

/// Maximum number of connections at a time. A browser opens six for one page.
const CONNECTIONS_MAX: usize = 64;
/// Maximum size in bytes of a request's first line and headers.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Maximum time to receive a head, and maximum idle time of a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Maximum time that a client may leave sent bytes unread.
const UNREAD_TIME: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// The response when the maximum number of connections is reached.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// An address of this machine at which metrics, health and the dashboard are served.
#[derive(Debug)]
pub struct HttpListener {
    listener: SystemListener,
}

impl HttpListener {
    /// Listens at an address that no other machine can reach.
    ///
    /// # Errors
    /// [`ServerError::OpenHttp`] for any other address; [`ServerError::Listen`] when it is taken.
    pub async fn tcp(address: SocketAddr) -> Result<Self, ServerError> {
        if !address.ip().is_loopback() {
            return Err(ServerError::OpenHttp(address));
        }
        let failed = |source| ServerError::Listen { place: address.to_string(), source };
        let listener = TcpListener::bind(address).await.and_then(TcpListener::into_std);
        Ok(Self { listener: listener.map_err(failed)? })
    }

    /// Returns the address; its port is the one that the system chose if none was given.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests in a separate thread until the server shuts down; connections end then.
    pub(crate) async fn serve(self, shared: Arc<Shared>, stopped: watch::Receiver<Stop>) {
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("terrace-http".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = self.run(shared, stopped) {
                tracing::error!(%error, "nothing is served by HTTP");
            }
            // The thread does not use the engine any more.
            drop(end);
        });
        match thread {
            Ok(_) => drop(ended.await),
            Err(error) => tracing::error!(%error, "HTTP has no thread"),
        }
    }

    /// Serves requests: the body of the thread.
    fn run(self, shared: Arc<Shared>, stopped: watch::Receiver<Stop>) -> io::Result<()> {
        let runtime = RuntimeBuilder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener)?;
            listen(listener, shared, stopped).await;
            Ok(())
        })
    }
}

/// Accepts connections until the server shuts down, and then ends them.
async fn listen(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<Stop>) {
    let hub = Arc::new(Hub::new(Arc::clone(&shared)));
    let site = Arc::new(Site::new(shared, Arc::clone(&hub)));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { hub.run().await });
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                // One of the tasks is the ticker.
                Ok((stream, _)) if tasks.len() > CONNECTIONS_MAX => {
                    let _unheard = stream.try_write(BUSY);
                }
                Ok((stream, _)) => drop(tasks.spawn(talk(Arc::clone(&site), stream))),
                Err(error) => {
                    tracing::warn!(%error, "a connection by HTTP could not be taken");
                    sleep(PAUSE).await;
                }
            },
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection by HTTP has failed");
                }
            }
            () = stopping(&mut stopped) => break,
        }
    }
    tasks.shutdown().await;
}

/// Serves the requests of a connection.
async fn talk(site: Arc<Site>, stream: TcpStream) {
    let io = TokioIo::new(WriteDeadline::new(stream, UNREAD_TIME));
    let service = service_fn(|request| {
        let response = site.respond(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(2 * HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    if let Err(error) = builder.serve_connection(io, service).await {
        tracing::debug!(%error, "a connection by HTTP has ended");
    }
}

//! A server over one engine: starts its listeners, and shuts them down.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use terrace_sql::Engine;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::error::ServerError;
use crate::flight::FlightListener;
use crate::http::HttpListener;
use crate::limits::Limits;
use crate::listener::{Door, Listener, bind};
use crate::registry::Registry;
use crate::runtimes::Runtimes;
use crate::shared::Shared;
use crate::shutdown::Stop;
use crate::tls::Tls;

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

impl Listener {
    /// Listens at an address for clients of `server`.
    ///
    /// # Errors
    /// [`ServerError::NoTls`] and [`ServerError::NoLogins`] for an address that other machines can
    /// reach, if the server has no certificate or its database has no role that can administer it;
    /// [`ServerError::Listen`] when the address is taken.
    pub async fn tcp(address: SocketAddr, server: &Server) -> Result<Self, ServerError> {
        Ok(Self::Tcp(bind(address, &server.shared).await?))
    }
}

impl FlightListener {
    /// Listens at an address for clients of `server`, under the rules of [`Listener::tcp`].
    ///
    /// # Errors
    /// As [`Listener::tcp`].
    pub async fn tcp(address: SocketAddr, server: &Server) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { place: address.to_string(), source };
        let listener = bind(address, &server.shared).await?.into_std().map_err(failed)?;
        Ok(Self::new(listener, server.shared.tls.is_some()))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("free", &self.shared.places.available_permits())
            .finish_non_exhaustive()
    }
}

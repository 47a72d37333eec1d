//! Arrow Flight SQL: clients fetch results as batches of Arrow by gRPC, and hand rows in as such.
//!
//! | module | concept |
//! |---|---|
//! | `answer` | answers to calls |
//! | `columns` | the types that clients are sent, and batches of them |
//! | `connection` | connections by TCP and TLS |
//! | `front` | calls as gRPC hands them in, run where statements run |
//! | `ingest` | rows of a client on their way into a table |
//! | `interrupt` | events that end a statement early |
//! | `keys` | primary and foreign keys, of which there are none |
//! | `listen` | the listener and its end |
//! | `metadata` | catalogs, schemas and tables |
//! | `options` | the settings of a session as options |
//! | `parameters` | values of prepared statements |
//! | `placeholders` | `?` as a parameter |
//! | `rows` | results on their way to a client |
//! | `service` | the commands and actions of Flight SQL |
//! | `session` | a session of a client: its tickets, statements and transaction |
//! | `sessions` | all sessions, by tokens and connections |
//! | `sql_info` | the properties of the server and its types |
//! | `statement` | statements that run |
//! | `status` | errors as gRPC has them |
//!
//! Connections have threads of their own, as HTTP has: operators may keep all threads of the
//! statements' runtime busy for long, and logins and requests to cancel should not wait for that.
//! Statements, and the encoding of their rows, run in the runtimes of statements.
//!
//! Every part of a call is bounded: connections, calls at a time of a connection, bytes of a
//! message and of its headers, tickets and prepared statements of a session, and the time that a
//! ticket or a message may stay unread.

mod answer;
mod calls;
mod columns;
mod connection;
mod ingest;
mod interrupt;
mod keys;
mod listen;
mod metadata;
mod options;
mod parameters;
mod placeholders;
mod rows;
mod service;
mod session;
mod sessions;
mod sql_info;
mod statement;
mod status;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use crate::postgres::Shared;
use crate::runtimes::Runtimes;
use crate::server::{Server, ServerError, Stop, bind};

/// An address at which clients of Arrow Flight SQL are served.
#[derive(Debug)]
pub struct FlightListener {
    listener: TcpListener,
    is_secure: bool,
}

impl FlightListener {
    /// Listens at an address for clients of `server`, with the rules of [`crate::Listener::tcp`].
    ///
    /// # Errors
    /// As [`crate::Listener::tcp`].
    pub async fn tcp(address: SocketAddr, server: &Server) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { place: address.to_string(), source };
        let listener = bind(address, server).await?.into_std().map_err(failed)?;
        Ok(Self { listener, is_secure: server.is_secure() })
    }

    /// The address, with the port that was chosen where none was given.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address as clients name it: `grpc://127.0.0.1:8815`, or `grpc+tls` with TLS.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn location(&self) -> io::Result<String> {
        let scheme = if self.is_secure { "grpc+tls" } else { "grpc" };
        Ok(format!("{scheme}://{}", self.address()?))
    }

    /// Serves clients until it is told to stop and their calls have ended. Nothing of it uses the
    /// engine after that.
    pub(crate) async fn serve(
        self,
        shared: Arc<Shared>,
        stopped: watch::Receiver<Stop>,
        statements: Runtimes,
    ) {
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("terrace-flight".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = listen::run(self.listener, shared, stopped, statements) {
                tracing::error!(%error, "nothing is served by Flight SQL");
            }
            drop(end);
        });
        match thread {
            Ok(_) => drop(ended.await),
            Err(error) => tracing::error!(%error, "Flight SQL has no thread"),
        }
    }
}

//! Arrow Flight SQL: clients fetch results as batches of Arrow over gRPC, and send rows in the same
//! form.
//!
//! | module | concept |
//! |---|---|
//! | `answer` | answers to calls |
//! | `calls` | entry of gRPC calls, which run in the statements' runtimes |
//! | `columns` | the Arrow types sent to clients, and conversion of batches to them |
//! | `connection` | TCP and TLS connections |
//! | `handle` | handles that clients send: the numbers in them |
//! | `ingest` | bulk ingestion of a client's rows into a table |
//! | `interrupt` | events that end a statement early |
//! | `keys` | schemas of primary and foreign keys, of which there are none |
//! | `listen` | the listener and its shutdown |
//! | `login` | logins, and the session of each call |
//! | `metadata` | catalogs, schemas and tables |
//! | `options` | the settings of a session as options |
//! | `parameters` | values of prepared statements |
//! | `placeholders` | `?` as a parameter |
//! | `prepared_statement` | prepared statements with their values |
//! | `query` | results: running queries and numbers of changed rows |
//! | `rows` | streams of a result's messages |
//! | `service` | the commands and actions of Flight SQL |
//! | `session` | a client's session |
//! | `sessions` | all sessions, by tokens and connections |
//! | `sql_info` | the properties of the server and its types |
//! | `statement` | execution of statements |
//! | `status` | errors as gRPC statuses |
//! | `tickets` | the tickets of a session's queries, and its prepared statements |
//! | `transaction` | the transaction of a session |
//!
//! Connections have their own threads, like those of HTTP: operators may keep all threads of the
//! statements' runtime busy for long, and logins and requests to cancel should not wait for that.
//! Statements, and the encoding of their rows, run in the statements' runtimes.
//!
//! Every part of a call is bounded: connections, concurrent calls of a connection, bytes of a
//! message and of its headers, tickets and prepared statements of a session, and the time that a
//! ticket or a message may stay unread.

mod answer;
mod calls;
mod columns;
mod connection;
mod handle;
mod ingest;
mod interrupt;
mod keys;
mod listen;
mod login;
mod metadata;
mod options;
mod parameters;
mod placeholders;
mod prepared_statement;
mod query;
mod rows;
mod service;
mod session;
mod sessions;
mod sql_info;
mod statement;
mod status;
mod tickets;
mod transaction;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use crate::runtimes::Runtimes;
use crate::shared::Shared;
use crate::shutdown::Stop;

/// An address at which Arrow Flight SQL clients are served.
#[derive(Debug)]
pub struct FlightListener {
    listener: TcpListener,
    is_secure: bool,
}

impl FlightListener {
    /// Serves clients that connect to `listener`; their connections use TLS if `is_secure`.
    pub(crate) fn new(listener: TcpListener, is_secure: bool) -> Self {
        Self { listener, is_secure }
    }

    /// Returns the address; its port is the one that the system chose if none was given.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the address in the form that clients use: `grpc://127.0.0.1:8815`, or `grpc+tls`
    /// with TLS.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn location(&self) -> io::Result<String> {
        let scheme = if self.is_secure { "grpc+tls" } else { "grpc" };
        Ok(format!("{scheme}://{}", self.address()?))
    }

    /// Serves clients until the server shuts down and their calls have ended. No thread or task of
    /// the listener uses the engine after that.
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

//! The database server: clients connect to one engine by the protocol of PostgreSQL.
//!
//! A [`Server`] listens at addresses and Unix sockets. Each connection has a session of the engine
//! of its own, so all clients share the engine's budget of memory. An [`HttpListener`] serves
//! metrics, health and a dashboard beside them.

#![forbid(unsafe_code)]

mod copy;
mod counters;
mod failure;
mod flight;
mod http;
mod limits;
mod log;
mod login;
mod pg_catalog;
mod postgres;
mod registry;
mod runtimes;
mod server;
mod stream;
mod tls;

pub use copy::{CopyError, copy_from, copy_to};
pub use flight::FlightListener;
pub use http::HttpListener;
pub use limits::Limits;
pub use server::{Listener, Server, ServerError, SocketFile};
pub use tls::{Tls, TlsError};

//! The database server: clients connect to one engine over PostgreSQL's wire protocol or by Arrow
//! Flight SQL.
//!
//! A [`Server`] listens at addresses and Unix sockets. Each connection has its own session of the
//! engine, so all clients share the engine's memory budget. An [`HttpListener`] serves metrics, a
//! health check and a dashboard.

#![forbid(unsafe_code)]

mod advisory_locks;
mod column_types;
mod connection_info;
mod copy;
mod counters;
mod error;
mod error_class;
mod failure;
mod flight;
mod http;
mod limits;
mod listener;
mod local_session;
mod log;
mod login;
mod pg_catalog;
mod postgres;
mod prefix;
mod query_batches;
mod registry;
mod runtimes;
mod server;
mod settings;
mod shared;
mod shared_settings;
mod shutdown;
mod sql_state;
mod stream;
mod syntax;
mod tls;

pub use copy::{CopyError, copy_from, copy_to};
pub use error::ServerError;
pub use flight::FlightListener;
pub use http::HttpListener;
pub use limits::Limits;
pub use listener::{Listener, SocketFile};
pub use local_session::with_pg_catalog;
pub use pg_catalog::ColumnNames;
pub use server::Server;
pub use tls::{Tls, TlsError};

//! The database server: clients connect to one engine by the protocol of PostgreSQL.
//!
//! A [`Server`] listens at addresses and Unix sockets. Each connection has a session of the engine
//! of its own, so all clients share the engine's budget of memory.

#![forbid(unsafe_code)]

mod copy;
mod limits;
mod pg_catalog;
mod postgres;
mod registry;
mod server;
mod stream;

pub use copy::{CopyError, copy_from, copy_to};
pub use limits::Limits;
pub use server::{Listener, Server, ServerError, SocketFile};

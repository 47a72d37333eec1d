//! PostgreSQL's wire protocol, version 3.
//!
//! The messages are pgwire's; their order is implemented here: one task for each connection reads
//! messages, runs statements in the connection's session and writes rows as they arrive. At most a
//! batch of rows and 64 KiB of messages of a result are held at a time.

mod access;
mod advisory;
mod cell;
mod command;
mod connection;
mod constants;
mod copy;
mod cursor;
mod date_time;
mod description;
mod encoded;
mod execute;
mod extended;
mod functions;
mod guard;
mod login;
mod message;
mod message_loop;
mod number;
mod parameter;
mod portal;
mod request;
mod reset;
mod rows;
mod scram;
mod scroll;
mod session;
mod settings;
mod simple;
mod statement;
mod text_cell;
mod transaction;
mod wire;

use crate::failure;

pub(crate) use access::{Access, Discard};
pub(crate) use command::Command;
pub(crate) use copy::{RowDecoder, RowEncoder};
pub(crate) use execute::count_of;
pub(crate) use message_loop::begin;
pub(crate) use session::{follow_changes, furnished, set, shown, zone};

/// Returns the text that a function appends.
#[cfg(test)]
fn written(put: impl FnOnce(&mut bytes::BytesMut)) -> String {
    let mut out = bytes::BytesMut::new();
    put(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

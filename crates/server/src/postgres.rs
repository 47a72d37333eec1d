//! PostgreSQL's wire protocol, version 3.
//!
//! The messages are pgwire's; their order is implemented here: one task for each connection reads
//! messages, runs statements in the connection's session and writes rows as they arrive. At most a
//! batch of rows and 64 KiB of messages of a result are held at a time.

mod access;
mod cell;
mod command;
mod connection;
mod constants;
mod copy;
mod cursor;
mod date_time;
mod execute;
mod extended;
mod functions;
mod login;
mod message;
mod names;
mod number;
mod parameter;
mod portal;
mod request;
mod reset;
mod scram;
mod settings;
mod statement;
mod transaction;
mod types;
mod wire;

use crate::failure;

pub(crate) use access::{follow_changes, set};
pub(crate) use command::Command;
pub(crate) use connection::{Shared, begin, furnished};
pub(crate) use copy::{RowDecoder, RowEncoder, count_of};
pub(crate) use execute::zone;
pub(crate) use functions::Place;
pub(crate) use names::{Names, name_of};
pub(crate) use parameter::array_items;
pub(crate) use reset::Forget;
pub(crate) use settings::{Access, Settings, SharedSettings};
pub(crate) use types::{TYPE_KEY, field_type, pg_type, type_modifier};

/// Returns the text that a function appends.
#[cfg(test)]
fn written(put: impl FnOnce(&mut bytes::BytesMut)) -> String {
    let mut out = bytes::BytesMut::new();
    put(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

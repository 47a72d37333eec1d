//! The durable form of a store: the log of its changes, and dumps of its groups.
//!
//! [`journal::Journal`] is what changes of objects pass through; [`dump`] and [`checkpoint`] write
//! whole stores. Everything here lies above the groups and below the operations on objects; the way
//! back, from files to objects, is [`crate::recover`].

pub(crate) mod blocks;
pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod directory;
pub(crate) mod dump;
pub(crate) mod encoding;
pub(crate) mod files;
pub(crate) mod identity;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod record;
mod snapshot;

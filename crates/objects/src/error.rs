//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use terrace_sys::size::format_bytes;

use crate::id::ObjectId;

/// Why an operation was refused. A refused operation changed nothing, but see
/// [`ObjectError::Log`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// No object has this id: it never did, or it was removed.
    #[error("no object has the id {0}")]
    NotFound(ObjectId),
    /// The bytes given or asked for are not as many as the object has.
    #[error("object {id} has {has} bytes, not {given}; `resize` and `replace` change its length")]
    Length {
        /// The object.
        id: ObjectId,
        /// Bytes it has.
        has: usize,
        /// Bytes given, or the end of the range asked for.
        given: usize,
    },
    /// The buffer is too short for the object.
    #[error("object {id} has {has} bytes, and the buffer has room for {room}")]
    Buffer {
        /// The object.
        id: ObjectId,
        /// Bytes it has.
        has: usize,
        /// Bytes the buffer has.
        room: usize,
    },
    /// The object is longer than a store can keep.
    #[error("an object of {0} bytes: the longest has {max}", max = crate::OBJECT_BYTES_MAX)]
    TooLong(usize),
    /// Somebody held the object's lock all the time that the caller waited.
    #[error("object {id} was locked for all of {waited_ms} ms")]
    LockTimeout {
        /// The object.
        id: ObjectId,
        /// How long the caller waited, in milliseconds.
        waited_ms: u128,
    },
    /// Two holders of a read lock wait for the other's to go: the one who came second is told.
    #[error("another holder of object {0}'s read lock waits to write it")]
    UpgradeConflict(ObjectId),
    /// The lock that the caller gives back is not held.
    #[error("object {0} is not locked that way")]
    NotLocked(ObjectId),
    /// The object is pinned: it can be neither removed nor made longer or shorter.
    #[error("object {0} is pinned")]
    Pinned(ObjectId),
    /// The object is not pinned.
    #[error("object {0} is not pinned")]
    NotPinned(ObjectId),
    /// The object may only be read.
    #[error("object {0} is read-only")]
    ReadOnly(ObjectId),
    /// The id was not reserved, or has its object already.
    #[error("the id {0} is not reserved")]
    NotReserved(ObjectId),
    /// The object is no value of the type, or the value cannot be an object.
    #[error("{} is no {type_name}: {reason}",
        .id.map_or_else(|| "a value".to_owned(), |id| format!("object {id}")))]
    Type {
        /// The object, if there is one yet.
        id: Option<ObjectId>,
        /// The type.
        type_name: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The memory of the store, or its budget, has no room.
    #[error("no room for {} in one piece: the store holds {} of {}, or all of its budget",
        format_bytes(*.asked), format_bytes(*.held), format_bytes(*.limit))]
    OutOfMemory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that the store holds.
        held: u64,
        /// Bytes that it may hold; its budget may have fewer.
        limit: u64,
    },
    /// All ids were given out.
    #[error("the store has given out all of its {0} ids")]
    OutOfIds(u64),
    /// Settings that cannot be.
    #[error("a store of objects cannot be set up so: {0}")]
    Config(String),
    /// The kernel refused memory.
    #[error("no {what}: {source}")]
    Memory {
        /// What was asked for.
        what: String,
        /// The kernel's word.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", .path.display())]
    File {
        /// What was to be done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// What a dump was to be written to, or read from, failed.
    #[error("a dump was interrupted: {0}")]
    Stream(#[source] io::Error),
    /// A dump or a log is not as it was written.
    #[error("{file} is damaged at byte {offset}: {reason}")]
    Corrupt {
        /// The file.
        file: String,
        /// Where what is damaged begins.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A dump or a log is of another version of this program.
    #[error("{} is of version {has}, and this program reads {reads}: {}", .path,
        if .has < .reads { "make a checkpoint with the program that wrote it, and open it then" }
        else { "open it with the program that wrote it, or a later one" })]
    Version {
        /// The file.
        path: String,
        /// The version that it has.
        has: u32,
        /// The version that this program writes.
        reads: u32,
    },
    /// A child of the process that opened the store (fork) cannot change it: the parent goes on
    /// with the log. It may read what it has a copy of, and open stores of its own.
    #[error(
        "this store was opened by process {opened_by}, which forked this one and has its log: \
        change it there, or open a store after the fork"
    )]
    Forked {
        /// The process that opened the store.
        opened_by: u32,
    },
    /// The log could not be written. The change is refused; if it was on its way when the log
    /// failed, it was made and is not durable. [`crate::ObjectStore::checkpoint`] begins anew.
    #[error("the log of the store cannot be written, a checkpoint begins another: {0}")]
    Log(String),
    /// [`crate::ObjectStore::check`] found what must not be.
    #[error("the store of objects is damaged: {0}")]
    Damaged(String),
}

impl ObjectError {
    pub(crate) fn file(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), source }
    }
}

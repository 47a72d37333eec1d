//! Errors of a store.

use std::io;
use std::path::{Path, PathBuf};

use terrace_sys::size::format_bytes;

use crate::id::ObjectId;

/// Reason that an operation was refused. A refused operation changed nothing, with the exception of
/// [`ObjectError::Log`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// No object has this id: it never did, or it was removed.
    #[error("no object has the id {0}")]
    NotFound(ObjectId),
    /// The length given or requested is not that of the object.
    #[error("object {id} has {has} bytes, not {given}; `resize` and `replace` change its length")]
    Length {
        /// The object.
        id: ObjectId,
        /// Bytes of the object.
        has: usize,
        /// Bytes given, or the end of the requested range.
        given: usize,
    },
    /// The buffer is too short for the object.
    #[error("object {id} has {has} bytes, and the buffer has room for {room}")]
    Buffer {
        /// The object.
        id: ObjectId,
        /// Bytes of the object.
        has: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// The object is longer than [`crate::OBJECT_BYTES_MAX`].
    #[error("an object of {0} bytes: the longest has {max}", max = crate::config::OBJECT_BYTES_MAX)]
    TooLong(usize),
    /// Other threads held the object's lock for as long as the caller waited.
    #[error("object {id} was locked for all of {waited_ms} ms")]
    LockTimeout {
        /// The object.
        id: ObjectId,
        /// Wait of the caller, in milliseconds.
        waited_ms: u128,
    },
    /// Another holder of the read lock already waits to upgrade. Each would wait for the other to
    /// release its lock, so the second one gets this error.
    #[error("another holder of object {0}'s read lock waits to write it")]
    UpgradeConflict(ObjectId),
    /// The lock to be released, upgraded or downgraded is not held in the required mode.
    #[error("object {0} is not locked that way")]
    NotLocked(ObjectId),
    /// The object is pinned: it can neither be removed nor resized.
    #[error("object {0} is pinned")]
    Pinned(ObjectId),
    /// The object is not pinned.
    #[error("object {0} is not pinned")]
    NotPinned(ObjectId),
    /// The object is read-only.
    #[error("object {0} is read-only")]
    ReadOnly(ObjectId),
    /// The id is not reserved, or already has an object.
    #[error("the id {0} is not reserved")]
    NotReserved(ObjectId),
    /// The object is no value of the type, or the value cannot be stored as an object.
    #[error("{} is no {type_name}: {reason}",
        .id.map_or_else(|| "a value".to_owned(), |id| format!("object {id}")))]
    Type {
        /// The object, if there is one yet.
        id: Option<ObjectId>,
        /// The type.
        type_name: &'static str,
        /// Reason.
        reason: String,
    },
    /// The memory of the store, or its budget, has no room.
    #[error("no room for {} in one piece: the store holds {} of {}, or all of its budget",
        format_bytes(*.asked), format_bytes(*.held), format_bytes(*.limit))]
    OutOfMemory {
        /// Bytes requested.
        asked: u64,
        /// Bytes that the store holds.
        held: u64,
        /// Most bytes that the store may hold; its budget may have fewer.
        limit: u64,
    },
    /// All ids were given out.
    #[error("the store has given out all of its {0} ids")]
    OutOfIds(u64),
    /// The configuration is invalid.
    #[error("a store of objects cannot be set up so: {0}")]
    Config(String),
    /// The kernel refused memory.
    #[error("no {what}: {source}")]
    Memory {
        /// The requested memory.
        what: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", .path.display())]
    File {
        /// The operation on the file.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The stream that a dump is written to or read from failed.
    #[error("a dump was interrupted: {0}")]
    Stream(#[source] io::Error),
    /// A dump or a log is damaged.
    #[error("{file} is damaged at byte {offset}: {reason}")]
    Corrupt {
        /// The file.
        file: String,
        /// Offset of the damaged part.
        offset: u64,
        /// Kind of damage.
        reason: String,
    },
    /// A dump or a log has a format version that this program does not read.
    #[error("{} is of version {has}, and this program reads {reads}: {}", .path,
        if .has < .reads { "make a checkpoint with the program that wrote it, and open it then" }
        else { "open it with the program that wrote it, or a later one" })]
    Version {
        /// The file.
        path: String,
        /// Version of the file.
        has: u32,
        /// Version that this program writes.
        reads: u32,
    },
    /// A child of the process that opened the store (fork) cannot change it, as the parent
    /// continues the log. The child may read its copy, and open stores of its own.
    #[error(
        "this store was opened by process {opened_by}, which forked this one and has its log: \
        change it there, or open a store after the fork"
    )]
    Forked {
        /// The process that opened the store.
        opened_by: u32,
    },
    /// The log could not be written. The change is refused; if it was in progress when the log
    /// failed, it was made and is not durable. [`crate::ObjectStore::checkpoint`] begins a new log.
    #[error("the log of the store cannot be written, a checkpoint begins another: {0}")]
    Log(String),
    /// [`crate::ObjectStore::check`] found an inconsistency.
    #[error("the store of objects is damaged: {0}")]
    Damaged(String),
}

impl ObjectError {
    pub(crate) fn file(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), source }
    }

    /// Returns the error of a damaged file.
    pub(crate) fn damaged(path: &Path, offset: u64, reason: &str) -> Self {
        let file = path.display().to_string();
        Self::Corrupt { file, offset, reason: reason.to_owned() }
    }
}

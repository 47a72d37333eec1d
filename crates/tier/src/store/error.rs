//! What can go wrong in a store.

use std::io;
use std::sync::Arc;

use terrace_sys::size::format_bytes;

use super::{Extent, MapError};

/// An error of a [`Store`](super::Store). Cheap to clone, because one failed transfer may fail
/// every reader that waits for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// No room for an extent, here or on the file system below, whose room then counts as the
    /// store's. Not latched.
    #[error(
        "store {store} is full: {} asked, {} of {} free, the largest piece {}; free some of its \
         pages, or give the tier or its file system more room",
        format_bytes(*asked_bytes), format_bytes(*free_bytes),
        format_bytes(*capacity_bytes), format_bytes(*largest_free_bytes)
    )]
    Full {
        /// Name of the store.
        store: String,
        /// Bytes that were asked for.
        asked_bytes: u64,
        /// Bytes not in use.
        free_bytes: u64,
        /// The longest run of them.
        largest_free_bytes: u64,
        /// Bytes it may hold in all.
        capacity_bytes: u64,
    },
    /// An earlier write or sync failed; writes are refused since.
    #[error("store {store} takes no more writes since it failed: {first}")]
    Latched {
        /// Name of the store.
        store: String,
        /// The error that came first.
        first: String,
    },
    /// The device refused or lost a write.
    #[error("store {store}: cannot write {extent}: {source}")]
    Write {
        /// Name of the store.
        store: String,
        /// What was to be written.
        extent: Extent,
        /// The system's word.
        source: Arc<io::Error>,
    },
    /// The device refused a read.
    #[error("store {store}: cannot read {extent}: {source}")]
    Read {
        /// Name of the store.
        store: String,
        /// What was to be read.
        extent: Extent,
        /// The system's word.
        source: Arc<io::Error>,
    },
    /// The bytes on the device are not those that were written.
    #[error(
        "store {store}: the {len} bytes at {offset} are damaged: their checksum is {found:08x} \
         where {expected:08x} was written"
    )]
    Corrupt {
        /// Name of the store.
        store: String,
        /// First byte of the extent.
        offset: u64,
        /// Its bytes.
        len: u64,
        /// The checksum when it was written.
        expected: u32,
        /// The checksum of what was read.
        found: u32,
    },
    /// Written data could not be made durable.
    #[error("store {store}: cannot sync: {source}")]
    Sync {
        /// Name of the store.
        store: String,
        /// The system's word.
        source: Arc<io::Error>,
    },
    /// The file could not be made longer, for a reason other than room.
    #[error("store {store}: cannot grow to hold {extent}: {source}")]
    Grow {
        /// Name of the store.
        store: String,
        /// The extent at its end.
        extent: Extent,
        /// The system's word.
        source: Arc<io::Error>,
    },
    /// An extent cannot be marked as in use.
    #[error("store {store}: cannot claim {extent}: {cause}")]
    Claim {
        /// Name of the store.
        store: String,
        /// The extent claimed.
        extent: Extent,
        /// Why not.
        cause: MapError,
    },
    /// The file or device cannot be opened.
    #[error("store {store}: cannot open it: {source}")]
    Open {
        /// Name of the store.
        store: String,
        /// The system's word.
        source: Arc<io::Error>,
    },
    /// The file or device holds bytes of something else, or of another owner.
    #[error("store {store}: it holds {holds}, and nothing was changed; {instead}")]
    Foreign {
        /// Name of the store.
        store: String,
        /// What was found.
        holds: String,
        /// What to do.
        instead: String,
    },
    /// A request that no store could serve.
    #[error("store {store}: {what}")]
    Invalid {
        /// Name of the store.
        store: String,
        /// What is wrong and what would be right.
        what: String,
    },
}

/// Whether the system ran out of room rather than failed.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

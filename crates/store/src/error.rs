//! Errors of a store.

use std::io;
use std::sync::Arc;

use terrace_sys::size::format_bytes;

use super::{Extent, MapError};

/// An error of a [`Store`](super::Store). Cheap to clone, because one failed transfer may fail
/// every reader that waits for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// No space for an extent, in the store or on the file system below, whose free space then
    /// limits the store's. Not latched.
    #[error(
        "store {store} is full: {} asked, {} of {} free, the largest piece {}; free some of its \
         pages, or give the tier or its file system more room",
        format_bytes(*asked_bytes), format_bytes(*free_bytes),
        format_bytes(*capacity_bytes), format_bytes(*largest_free_bytes)
    )]
    Full {
        /// Name of the store.
        store: String,
        /// Requested bytes.
        asked_bytes: u64,
        /// Bytes not in use.
        free_bytes: u64,
        /// Length of the longest free run in bytes.
        largest_free_bytes: u64,
        /// Capacity in bytes.
        capacity_bytes: u64,
    },
    /// An earlier write or sync failed; writes are refused since then.
    #[error("store {store} takes no more writes since it failed: {first}")]
    Latched {
        /// Name of the store.
        store: String,
        /// The first error.
        first: String,
    },
    /// The device refused or lost a write.
    #[error("store {store}: cannot write {extent}: {source}")]
    Write {
        /// Name of the store.
        store: String,
        /// Extent to be written.
        extent: Extent,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// The device refused a read.
    #[error("store {store}: cannot read {extent}: {source}")]
    Read {
        /// Name of the store.
        store: String,
        /// Extent to be read.
        extent: Extent,
        /// Error of the operating system.
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
        /// Length of the extent in bytes.
        len: u64,
        /// Checksum computed at the time of the write.
        expected: u32,
        /// Checksum of the bytes read.
        found: u32,
    },
    /// Written data could not be made durable.
    #[error("store {store}: cannot sync: {source}")]
    Sync {
        /// Name of the store.
        store: String,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// The file could not be extended, for a reason other than lack of space.
    #[error("store {store}: cannot grow to hold {extent}: {source}")]
    Grow {
        /// Name of the store.
        store: String,
        /// Extent for which the file had to be extended.
        extent: Extent,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// An extent cannot be claimed.
    #[error("store {store}: cannot claim {extent}: {cause}")]
    Claim {
        /// Name of the store.
        store: String,
        /// The extent to be claimed.
        extent: Extent,
        /// Reason of the refusal.
        cause: MapError,
    },
    /// The file or device cannot be opened.
    #[error("store {store}: cannot open it: {source}")]
    Open {
        /// Name of the store.
        store: String,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// The file or device holds foreign data, or the store of another owner.
    #[error("store {store}: it holds {holds}, and nothing was changed; {instead}")]
    Foreign {
        /// Name of the store.
        store: String,
        /// Description of the data found.
        holds: String,
        /// Suggested action.
        instead: String,
    },
    /// The request is invalid for any store.
    #[error("store {store}: {what}")]
    Invalid {
        /// Name of the store.
        store: String,
        /// Description of the fault and of valid values.
        what: String,
    },
}

/// True if the error means lack of space rather than a failure.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

//! Errors of heaps.

use std::io;

use terrace_region::RegionError;

use crate::arena::Refused;

/// An error of a heap.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// The configuration is invalid.
    #[error("heap {heap}: {reason}")]
    Config {
        /// The heap's name.
        heap: String,
        /// The invalid setting, and the valid values.
        reason: String,
    },
    /// The kernel refuses addresses, or memory of the node.
    #[error("heap {heap}: {what}: {source}")]
    System {
        /// The heap's name.
        heap: String,
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The region cannot hold the arena's first block, 4 MiB if metadata lie in the region, or
    /// another owner holds bytes of the heap's part.
    #[error("heap {heap}: {source}")]
    Region {
        /// The heap's name.
        heap: String,
        /// The region's error.
        #[source]
        source: RegionError,
    },
    /// The allocator refuses a control; a process has some 4,000 arenas at most, for example.
    #[error("heap {heap}: the allocator refuses `{key}`: {source}")]
    Arena {
        /// The heap's name.
        heap: String,
        /// jemalloc's name of the control.
        key: String,
        /// The allocator's error.
        #[source]
        source: io::Error,
    },
    /// There is no room for an object.
    #[error("heap {heap}: no room for {bytes} bytes")]
    NoRoom {
        /// The heap's name.
        heap: String,
        /// Bytes requested.
        bytes: usize,
    },
}

/// Returns a conversion of a control's error to that of a heap.
pub(crate) fn refused(heap: &str) -> impl FnOnce(Refused) -> HeapError {
    let heap = heap.to_owned();
    |Refused { key, source }| HeapError::Arena { heap, key, source }
}

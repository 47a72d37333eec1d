//! What can go wrong with a heap.

use std::io;

use terrace_region::RegionError;

/// An error of a heap.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// The configuration makes no sense.
    #[error("heap {heap}: {reason}")]
    Config {
        /// The heap's name.
        heap: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Addresses, or memory of the node, are not to be had.
    #[error("heap {heap}: {what}: {source}")]
    System {
        /// The heap's name.
        heap: String,
        /// What was tried.
        what: &'static str,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The region does not hold the arena's first block, 4 MiB where metadata are in it, or
    /// somebody else has bytes of the heap's part.
    #[error("heap {heap}: {source}")]
    Region {
        /// The heap's name.
        heap: String,
        /// The region's word.
        #[source]
        source: RegionError,
    },
    /// The allocator refuses: a process has some 4,000 arenas, for example.
    #[error("heap {heap}: the allocator refuses `{key}`: {source}")]
    Arena {
        /// The heap's name.
        heap: String,
        /// What was asked, by the allocator's own name for it.
        key: String,
        /// Its word.
        #[source]
        source: io::Error,
    },
    /// There is no room for an object.
    #[error("heap {heap}: no room for {bytes} bytes")]
    NoRoom {
        /// The heap's name.
        heap: String,
        /// Bytes that were asked for.
        bytes: usize,
    },
}

//! Errors of a region.

use std::io;
use std::time::Duration;

use terrace_sys::size::format_bytes;

fn among(pagers: usize) -> String {
    match pagers {
        1 => String::new(),
        pagers => format!(", of which each of {pagers} pagers has its part"),
    }
}

/// Error of a region.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The configuration is invalid.
    #[error("region {region}: {reason}")]
    Config {
        /// Name of the region.
        region: String,
        /// Reason, and the valid values.
        reason: String,
    },
    /// The kernel, or the permissions of this process, lack what a region needs.
    #[error(
        "region {region}: {what}: {source}; userfaultfd takes Linux 6.6 and, in a container, a \
         seccomp profile that lets it pass or access to /dev/userfaultfd"
    )]
    Platform {
        /// Name of the region.
        region: String,
        /// Operation that failed.
        what: &'static str,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// Another region or store, in this or another process, has claimed bytes of the source.
    #[error(
        "region {region}: its {len} bytes at {offset} of the file cannot be had: {source}; close \
         it there, or name other bytes"
    )]
    InUse {
        /// Name of the region.
        region: String,
        /// Offset of the region in the source.
        offset: u64,
        /// Length of the region in bytes.
        len: u64,
        /// Current owner, if it is known.
        #[source]
        source: io::Error,
    },
    /// Memory or address space is exhausted, or another system call has failed.
    #[error("region {region}: {what}: {source}")]
    System {
        /// Name of the region.
        region: String,
        /// Operation that failed.
        what: &'static str,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// The range does not lie inside the region.
    #[error("region {region}: {len} bytes at {offset} do not lie in {}", format_bytes(*.all))]
    Range {
        /// Name of the region.
        region: String,
        /// Offset of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
        /// Length in bytes of the region or part that the range must lie in.
        all: u64,
    },
    /// Bytes of the range are held exclusively as a [`Part`](crate::Part).
    #[error("region {region}: {len} bytes at {offset}: some of them are a part of {holder}")]
    Taken {
        /// Name of the region.
        region: String,
        /// Offset of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
        /// Holder of the part.
        holder: String,
    },
    /// The range is larger than the cap.
    #[error(
        "region {region}: {} cannot be in memory at a time: its cap is {}{}; pin less of it, or \
         raise the cap",
        format_bytes(*.bytes),
        format_bytes(*.cap),
        among(*.pagers)
    )]
    Cap {
        /// Name of the region.
        region: String,
        /// Bytes of the blocks that were requested.
        bytes: u64,
        /// Cap of the region in bytes.
        cap: u64,
        /// Number of pagers; each has an equal share of the cap, for its share of the blocks.
        pagers: usize,
    },
    /// A pager has failed: blocks are no longer paged in or out, and resident blocks stay resident.
    #[error("region {region}: a pager cannot go on: {message}")]
    Broken {
        /// Name of the region.
        region: String,
        /// Failure of the pager.
        message: String,
    },
    /// A block could not be read; threads that touch it receive SIGBUS.
    #[error("region {region}: the block at {offset} cannot be read: {message}")]
    Read {
        /// Name of the region.
        region: String,
        /// Offset of the block.
        offset: u64,
        /// Error of the source.
        message: String,
    },
    /// A block could not be written back; it stays in memory.
    #[error(
        "region {region}: the block at {offset} stays in memory, it cannot be written: {message}"
    )]
    Write {
        /// Name of the region.
        region: String,
        /// Offset of the block.
        offset: u64,
        /// Error of the source.
        message: String,
    },
    /// The source could not be synced.
    #[error("region {region}: what was written is not safe: {message}")]
    Sync {
        /// Name of the region.
        region: String,
        /// Error of the source.
        message: String,
    },
    /// Blocks stayed pinned, or their transfers did not end, before the deadline.
    #[error("region {region}: {blocks} blocks were not ready within {waited:?}")]
    Timeout {
        /// Name of the region.
        region: String,
        /// Number of blocks that were not ready.
        blocks: usize,
        /// Time that the caller waited.
        waited: Duration,
    },
}

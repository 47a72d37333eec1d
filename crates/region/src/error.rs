//! What can go wrong with a region.

use std::io;
use std::time::Duration;

use terrace_sys::size::format_bytes;

fn among(pagers: usize) -> String {
    match pagers {
        1 => String::new(),
        pagers => format!(", of which each of {pagers} pagers has its part"),
    }
}

/// An error of a region.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The configuration makes no sense.
    #[error("region {region}: {reason}")]
    Config {
        /// The region's name.
        region: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The kernel does not offer what a region needs, or not to this process.
    #[error(
        "region {region}: {what}: {source}; userfaultfd takes Linux 6.6 and, in a container, a \
         seccomp profile that lets it pass or access to /dev/userfaultfd"
    )]
    Platform {
        /// The region's name.
        region: String,
        /// What was tried.
        what: &'static str,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// Somebody else, here or in another process, has bytes of the source.
    #[error(
        "region {region}: its {len} bytes at {offset} of the file cannot be had: {source}; close \
         it there, or name other bytes"
    )]
    InUse {
        /// The region's name.
        region: String,
        /// Where it begins in the source.
        offset: u64,
        /// Its bytes.
        len: u64,
        /// Who has it, where that is known.
        #[source]
        source: io::Error,
    },
    /// Memory or addresses are exhausted.
    #[error("region {region}: {what}: {source}")]
    System {
        /// The region's name.
        region: String,
        /// What was tried.
        what: &'static str,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// A range that does not lie inside.
    #[error("region {region}: {len} bytes at {offset} do not lie in {}", format_bytes(*.all))]
    Range {
        /// The region's name.
        region: String,
        /// Where the range begins.
        offset: u64,
        /// Its bytes.
        len: u64,
        /// Bytes of the region.
        all: u64,
    },
    /// Somebody has bytes of the range.
    #[error("region {region}: {len} bytes at {offset}: some of them are a part of {holder}")]
    Taken {
        /// The region's name.
        region: String,
        /// Where the range begins.
        offset: u64,
        /// Its bytes.
        len: u64,
        /// Who has them.
        holder: String,
    },
    /// More than may be in memory at a time.
    #[error(
        "region {region}: {} cannot be in memory at a time: its cap is {}{}; pin less of it, or \
         raise the cap",
        format_bytes(*.bytes),
        format_bytes(*.cap),
        among(*.pagers)
    )]
    Cap {
        /// The region's name.
        region: String,
        /// Bytes of the blocks that were to be in memory.
        bytes: u64,
        /// Bytes that may be.
        cap: u64,
        /// Threads that have a part of the cap each, for a part of the blocks.
        pagers: usize,
    },
    /// Blocks neither come nor go any more; what is in memory stays there.
    #[error("region {region}: a pager cannot go on: {message}")]
    Broken {
        /// The region's name.
        region: String,
        /// What it met.
        message: String,
    },
    /// A block could not be read; who touches it gets SIGBUS.
    #[error("region {region}: the block at {offset} cannot be read: {message}")]
    Read {
        /// The region's name.
        region: String,
        /// Where the block begins.
        offset: u64,
        /// What the source said.
        message: String,
    },
    /// A block could not be written; it stays in memory.
    #[error(
        "region {region}: the block at {offset} stays in memory, it cannot be written: {message}"
    )]
    Write {
        /// The region's name.
        region: String,
        /// Where the block begins.
        offset: u64,
        /// What the source said.
        message: String,
    },
    /// The source could not be made durable.
    #[error("region {region}: what was written is not safe: {message}")]
    Sync {
        /// The region's name.
        region: String,
        /// What the source said.
        message: String,
    },
    /// Blocks stayed pinned, or their transfers did not end.
    #[error("region {region}: {blocks} blocks were not ready within {waited:?}")]
    Timeout {
        /// The region's name.
        region: String,
        /// Blocks that were not.
        blocks: usize,
        /// How long was waited.
        waited: Duration,
    },
}

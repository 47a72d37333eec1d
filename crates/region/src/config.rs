//! How a region is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_market::Ledger;
use terrace_tier::store::Blocks;

/// The smallest block, a page.
pub const BLOCK_BYTES_MIN: usize = 4 << 10;
/// The largest block.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;
/// Blocks of so many bytes and more are made of huge pages.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Blocks that a pager reads at a time, at most: as many as keep a device busy.
pub const DEPTH_MAX: usize = 16;

/// Whether a source holds bytes that a region begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Blocks read as zero until they are written.
    Blank,
    /// Blocks are read from the source.
    Stored,
}

/// Where the bytes of a region live.
#[derive(Clone)]
pub struct Source {
    /// A file, a device, or any other store.
    pub blocks: Arc<dyn Blocks>,
    /// Where the region begins in it, a multiple of 4 KiB.
    pub offset: u64,
    /// Bytes of the region; what is beyond the end of a file reads as zero, and a file does not
    /// grow beyond the page that the region ends in.
    pub len: u64,
    /// Whether its bytes count.
    pub contents: Contents,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("kind", &self.blocks.kind())
            .field("offset", &self.offset)
            .field("len", &self.len)
            .field("contents", &self.contents)
            .finish()
    }
}

/// How blocks get into their place and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Their pages are moved (Linux 6.8 and later).
    Move,
    /// Their bytes are copied in, and their pages dropped. Memory that direct I/O or registered
    /// buffers write to must be pinned here: protection does not stop a device.
    Copy,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Move => "move",
            Method::Copy => "copy",
        })
    }
}

/// How a region is set up.
#[derive(Clone, Debug)]
pub struct RegionConfig {
    /// Its name in errors, statistics and the ledger.
    pub name: String,
    /// Bytes that come and go together: a power of two from [`BLOCK_BYTES_MIN`] to
    /// [`BLOCK_BYTES_MAX`]. Those of 2 MiB and more are moved as huge pages: the cheapest ones
    /// where most of a block is used once it is there. Below 64 KiB a fault costs more than its
    /// transfer. The region keeps about 120 bytes of notes on each block, which no budget counts.
    pub block_bytes: usize,
    /// Bytes that are in memory at most, staging included; two blocks for each pager at least.
    pub cap_bytes: u64,
    /// The budget that resident blocks count against, beside the cap.
    pub ledger: Ledger,
    /// Threads that answer faults, each for a part of the blocks.
    pub pagers: usize,
    /// Blocks that a pager reads at a time, 1 to [`DEPTH_MAX`].
    pub depth: usize,
    /// How blocks get into their place; the cheaper one by a trial if none is named.
    pub method: Option<Method>,
    /// How long `pin`, `evict` and `flush` wait for a block, or for the next one of many, before
    /// they are an error.
    pub patience: Duration,
    /// Bytes asked for ahead of who touches blocks one after the other, at most.
    pub ahead_bytes: usize,
}

impl RegionConfig {
    /// Blocks of 256 KiB, one pager, and a cap of the ledger's whole budget.
    #[must_use]
    pub fn new(name: impl Into<String>, ledger: Ledger) -> Self {
        Self {
            name: name.into(),
            block_bytes: 256 << 10,
            cap_bytes: ledger.budget(),
            ledger,
            pagers: 1,
            depth: DEPTH_MAX,
            method: None,
            patience: Duration::from_secs(30),
            ahead_bytes: 2 << 20,
        }
    }
}

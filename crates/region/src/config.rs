//! Configuration of a region: its source, its sizes and its paging method.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_store::Blocks;

/// Size of the smallest block: one page.
pub const BLOCK_BYTES_MIN: usize = 4 << 10;
/// Size of the largest block.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;
/// Block size from which blocks are made of huge pages.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Maximum number of blocks that a pager reads at a time; enough to keep a device busy.
pub const DEPTH_MAX: usize = 16;

/// Initial contents of a region's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Blocks read as zero until they are written.
    Blank,
    /// Blocks are read from the source.
    Stored,
}

/// Backing store of a region.
#[derive(Clone)]
pub struct Source {
    /// A file, a device or any other store.
    pub blocks: Arc<dyn Blocks>,
    /// Offset of the region in the store, a multiple of 4 KiB.
    pub offset: u64,
    /// Length of the region in bytes. Bytes beyond the end of a file read as zero, and a file does
    /// not grow beyond the page that the region ends in.
    pub len: u64,
    /// Initial contents: zeros or the bytes of the store.
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

/// Mechanism by which pages get into and out of a block's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Pages are moved (`UFFDIO_MOVE`; Linux 6.8 and later).
    Move,
    /// Bytes are copied in (`UFFDIO_COPY`), and pages are dropped on eviction. Memory that direct
    /// I/O or registered buffers write to must be pinned: write protection does not stop a device.
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

/// Configuration of a region.
#[derive(Clone, Debug)]
pub struct RegionConfig {
    /// Name of the region in errors, statistics and the ledger.
    pub name: String,
    /// Block size, the unit of paging: a power of two from [`BLOCK_BYTES_MIN`] to
    /// [`BLOCK_BYTES_MAX`]. Blocks of 2 MiB and more are moved as huge pages, which is cheapest if
    /// most of a block is used once it is resident. Below 64 KiB a fault costs more than its
    /// transfer. The region keeps about 120 bytes of metadata for each block, which no budget
    /// counts.
    pub block_bytes: usize,
    /// Maximum number of resident bytes, staging frames included; at least two blocks for each
    /// pager.
    pub cap_bytes: u64,
    /// Budget that resident blocks are charged to, in addition to the cap.
    pub ledger: Ledger,
    /// Number of pager threads, 1 to 64; each handles the faults of its share of the blocks.
    pub pagers: usize,
    /// Maximum number of blocks that a pager reads at a time, 1 to [`DEPTH_MAX`].
    pub depth: usize,
    /// Paging method; if `None`, the cheaper one by measurement.
    pub method: Option<Method>,
    /// Time that `pin`, `evict` and `flush` wait for the next block of their range to be done
    /// before they fail with a timeout.
    pub patience: Duration,
    /// Maximum readahead of one sequential stream, in bytes.
    pub ahead_bytes: usize,
}

impl RegionConfig {
    /// Returns a configuration with blocks of 256 KiB, one pager, and the ledger's whole budget as
    /// cap.
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

//! Parameters of a scan, and the numbers by which it finds its chunks.

use std::sync::Arc;

use terrace_governor::pins::PagePins;

/// Parameters of a table scan.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Number of partitions of the scan, at most the number of chunks.
    pub partitions: usize,
    /// Bytes of segments that are prefetched behind the chunk that a partition reads.
    pub ahead_bytes: u64,
    /// Account of the bytes that batches pin.
    pub pins: Arc<PagePins>,
}

/// Index of a chunk in its version, attached to its file.
#[derive(Copy, Clone, Debug)]
pub(super) struct ChunkNumber(pub(super) usize);

//! Sizes of the pieces that are sorted, and of the blocks that are read.

/// Sizes of the parts of a sort; only experiments and tests need other values than the defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortSizes {
    /// Bytes of rows that are sorted at a time. More means fewer pieces to merge, but a sort that
    /// leaves the processor's cache.
    pub piece_bytes: usize,
    /// Bytes of a block of a run: small enough for many runs to have one pinned each, large enough
    /// for a store to read at its full speed.
    pub block_bytes: u64,
}

impl Default for SortSizes {
    fn default() -> Self {
        Self { piece_bytes: 2 << 20, block_bytes: 256 << 10 }
    }
}

//! Options of the aggregation.

/// Options of a [`PagedAggregateExec`](super::PagedAggregateExec).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregateOptions {
    /// True if the operator ignores its memory limit: it neither asks its grant nor unpins pages,
    /// so that the pool alone must find frames (Otaki et al., CIDR 2025, section 5). For
    /// experiments; it fails when its pages do not fit memory.
    pub oblivious: bool,
    /// Minimum bytes of groups to spill: fewer would not fill the pages of the 16 partitions. A
    /// table that has 8 MiB of pages pinned spills in any case.
    pub let_go_bytes_min: u64,
    /// Approximate size in bytes of the pieces that a list of values is cut into when it is
    /// spilled.
    pub piece_bytes: usize,
}

impl Default for AggregateOptions {
    fn default() -> Self {
        Self { oblivious: false, let_go_bytes_min: 64 << 10, piece_bytes: 256 << 10 }
    }
}

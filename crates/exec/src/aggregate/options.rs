//! Options of the aggregation.

/// Options of a [`PagedAggregateExec`](super::PagedAggregateExec).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregateOptions {
    /// True if the operator ignores its memory limit: it neither asks its grant nor unpins
    /// anything, and leaves it to the pool to find room (Otaki et al., CIDR 2025, section 5). For
    /// experiments; it fails when its pages do not fit memory.
    pub oblivious: bool,
    /// Bytes of groups below which spilling is not worth the pages; the default is about a quarter
    /// of a page for every partition.
    pub let_go_bytes_min: u64,
    /// Approximate size in bytes of the pieces that a long list of values is written in.
    pub piece_bytes: usize,
}

impl Default for AggregateOptions {
    fn default() -> Self {
        Self { oblivious: false, let_go_bytes_min: 64 << 10, piece_bytes: 256 << 10 }
    }
}

//! Counters of merges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_sys::size::to_u64;

use crate::chunk::Chunk;

/// Counters of the merges of a table since the process started.
#[derive(Debug, Default)]
pub struct MergeCounters {
    /// Merges completed.
    pub merges: AtomicU64,
    /// Chunks removed.
    pub merged_chunks: AtomicU64,
    /// Chunks written.
    pub written_chunks: AtomicU64,
    /// Rows of the chunks written.
    pub rows: AtomicU64,
    /// Bytes of the extents removed.
    pub freed_bytes: AtomicU64,
    /// Bytes of the extents written.
    pub written_bytes: AtomicU64,
    /// Merges abandoned because of a conflict with a statement or a transaction.
    pub conflicts: AtomicU64,
    /// Merges that failed and are retried.
    pub failures: AtomicU64,
}

impl MergeCounters {
    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, merged: &[Arc<Chunk>], written: &[Arc<Chunk>]) {
        let bytes = |chunks: &[Arc<Chunk>]| chunks.iter().map(|chunk| chunk.extent_bytes()).sum();
        let add = |counter: &AtomicU64, more| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.merges, 1);
        add(&self.merged_chunks, to_u64(merged.len()));
        add(&self.written_chunks, to_u64(written.len()));
        add(&self.rows, to_u64(written.iter().map(|chunk| chunk.rows).sum()));
        add(&self.freed_bytes, bytes(merged));
        add(&self.written_bytes, bytes(written));
    }
}

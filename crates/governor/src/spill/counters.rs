//! Counters of spilled bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of what a query has spilled so far.
#[derive(Debug, Default)]
pub struct SpillCounters {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl SpillCounters {
    /// Returns the number of files created.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Returns the bytes written to them, or unpinned by paged operators for lack of memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn count_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

//! Counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};

/// A snapshot of a store's counters and free map.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Bytes in allocated and claimed extents.
    pub used_bytes: u64,
    /// End of the last extent that is or was in use: the size of the file, except for the growth
    /// step and until a trim.
    pub extent_bytes: u64,
    /// Length of the longest free run in bytes.
    pub largest_free_bytes: u64,
    /// Number of extent reads, including failed ones.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Number of extent writes, including failed ones.
    pub writes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// Reads that failed on the device.
    pub read_errors: u64,
    /// Reads with a checksum mismatch.
    pub corrupt_reads: u64,
    /// Requests refused for lack of space.
    pub full: u64,
    /// Frees of extents that were not in use: a defect of a caller.
    pub double_frees: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    read_errors: AtomicU64,
    corrupt_reads: AtomicU64,
    full: AtomicU64,
    double_frees: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self, bytes: u64) {
        add(&self.reads, 1);
        add(&self.read_bytes, bytes);
    }

    pub(super) fn wrote(&self, bytes: u64) {
        add(&self.writes, 1);
        add(&self.written_bytes, bytes);
    }

    pub(super) fn read_error(&self) {
        add(&self.read_errors, 1);
    }

    pub(super) fn corrupt(&self) {
        add(&self.corrupt_reads, 1);
    }

    pub(super) fn full(&self) {
        add(&self.full, 1);
    }

    pub(super) fn double_free(&self) {
        add(&self.double_frees, 1);
    }

    pub(super) fn snapshot(&self) -> StoreStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreStats {
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            writes: get(&self.writes),
            written_bytes: get(&self.written_bytes),
            read_errors: get(&self.read_errors),
            corrupt_reads: get(&self.corrupt_reads),
            full: get(&self.full),
            double_frees: get(&self.double_frees),
            ..StoreStats::default()
        }
    }
}

fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

//! Counters of a scan, for EXPLAIN ANALYZE and for progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use terrace_sys::size::to_u64;

use crate::placement::Copied;

/// Location from which the bytes of segments were read: DRAM, slower memory, or the store.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Dram,
    Remote,
    Store,
}

impl Origin {
    /// Returns the origin of a page that was in this memory tier, or in none.
    pub(super) fn of_tier(tier: Option<usize>) -> Self {
        match tier {
            Some(0) => Self::Dram,
            Some(_) => Self::Remote,
            None => Self::Store,
        }
    }

    /// Returns the origin of a segment's copy in a heap. For a heap over a file it is unknown which
    /// part of the copy is in memory; that counts as remote.
    pub(super) fn of_copy(copy: &Copied) -> Self {
        if copy.is_dram() { Self::Dram } else { Self::Remote }
    }
}

/// Progress of a scan, over all of its partitions.
#[derive(Debug, Default)]
pub struct ScanProgress {
    rows_total: u64,
    rows: AtomicU64,
    dram_bytes: AtomicU64,
    remote_bytes: AtomicU64,
    store_bytes: AtomicU64,
}

impl ScanProgress {
    pub(super) fn of_rows(rows: usize) -> Self {
        Self { rows_total: to_u64(rows), ..Self::default() }
    }

    /// Returns the number of rows of the scanned table version.
    #[must_use]
    pub fn rows_total(&self) -> u64 {
        self.rows_total
    }

    /// Returns the number of rows that were returned or pruned.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Returns the bytes of segments that were in DRAM when they were requested.
    #[must_use]
    pub fn dram_bytes(&self) -> u64 {
        self.dram_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of segments that were in slower memory.
    #[must_use]
    pub fn remote_bytes(&self) -> u64 {
        self.remote_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of segments that came from the store.
    #[must_use]
    pub fn store_bytes(&self) -> u64 {
        self.store_bytes.load(Ordering::Relaxed)
    }
}

/// Counters of one partition.
#[derive(Clone, Debug)]
pub(super) struct ScanCounters {
    pub(super) chunks_scanned: Count,
    pub(super) chunks_pruned: Count,
    pub(super) chunks_copied: Count,
    pub(super) time_waiting: Time,
    dram_bytes: Count,
    remote_bytes: Count,
    store_bytes: Count,
    progress: Arc<ScanProgress>,
}

impl ScanCounters {
    pub(super) fn new(
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
        progress: &Arc<ScanProgress>,
    ) -> Self {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            chunks_scanned: counter("chunks_scanned"),
            chunks_pruned: counter("chunks_pruned"),
            chunks_copied: counter("chunks_copied"),
            time_waiting: MetricBuilder::new(metrics).subset_time("time_waiting_for_io", partition),
            dram_bytes: counter("bytes_from_dram"),
            remote_bytes: counter("bytes_from_remote"),
            store_bytes: counter("bytes_from_store"),
            progress: Arc::clone(progress),
        }
    }

    pub(super) fn read(&self, origin: Origin, bytes: usize) {
        let (metric, progress) = match origin {
            Origin::Dram => (&self.dram_bytes, &self.progress.dram_bytes),
            Origin::Remote => (&self.remote_bytes, &self.progress.remote_bytes),
            Origin::Store => (&self.store_bytes, &self.progress.store_bytes),
        };
        metric.add(bytes);
        progress.fetch_add(to_u64(bytes), Ordering::Relaxed);
    }

    pub(super) fn passed(&self, rows: usize) {
        self.progress.rows.fetch_add(to_u64(rows), Ordering::Relaxed);
    }
}

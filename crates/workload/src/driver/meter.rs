//! Per-thread counters of operations and latencies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::workload::Step;
use terrace_sys::histogram::{Histogram, Recorder};

/// Maximum number of kinds of operations of a workload.
pub const KINDS_MAX: usize = 8;

/// Counters of one thread, on cache lines of their own. Only that thread writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Meter {
    operations: [AtomicU64; KINDS_MAX],
    latencies: Recorder,
}

impl Meter {
    #[inline]
    pub(super) fn count(&self, step: Step) {
        let count = &self.operations[step.kind];
        count.store(count.load(Ordering::Relaxed) + step.operations, Ordering::Relaxed);
    }

    pub(super) fn latency(&self, latency: Duration) {
        self.latencies.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the current counts to `operations` and `latencies`.
    pub(super) fn add_to(&self, operations: &mut [u64], latencies: &mut Histogram) {
        for (sum, count) in operations.iter_mut().zip(&self.operations) {
            *sum += count.load(Ordering::Relaxed);
        }
        self.latencies.add_to(latencies);
    }
}

//! Statistics of a region.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_sys::histogram::{Histogram, Quantiles, Recorder};
use terrace_sys::sync::lock;

/// Counters of a region since its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionStats {
    /// Page faults that the pagers handled.
    pub faults: u64,
    /// Faults on blocks that were in place by the time they were handled, such as those on pages
    /// that the process had dropped (`madvise`).
    pub spurious: u64,
    /// Blocks read from the source.
    pub fills: u64,
    /// Blocks filled with zeros instead of being read.
    pub zeroed: u64,
    /// Blocks read ahead of a fault.
    pub ahead: u64,
    /// Blocks taken out of their place.
    pub taken_out: u64,
    /// Blocks taken out that a fault brought back without a transfer (second-chance hits).
    pub returned: u64,
    /// Blocks evicted from memory.
    pub evicted: u64,
    /// Evicted blocks that were discarded because their bytes were unused.
    pub discarded: u64,
    /// Blocks written back to the source.
    pub write_backs: u64,
    /// Blocks copied into place, at least in part, although the region moves pages.
    pub copied: u64,
    /// Bytes read from the source.
    pub read_bytes: u64,
    /// Bytes written to the source.
    pub written_bytes: u64,
    /// Reads and writes that failed, including those that were retried.
    pub failures: u64,
    /// Blocks poisoned because they could not be read.
    pub poisoned: u64,
    /// Frames that the budget refused while the cap allowed them.
    pub denied: u64,
    /// Bytes of frames now held, staging included.
    pub resident_bytes: u64,
    /// Latency in nanoseconds from the arrival of a fault until its block was in place.
    pub fault: Quantiles,
    /// Error of the last write that the source refused, cleared when the last refused block is
    /// written or discarded; or, for good, the reason why writes may be lost: a failed sync or a
    /// failed pager.
    pub latched: Option<String>,
}

/// Counter that any thread may increment.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) faults: Count,
    pub(crate) spurious: Count,
    pub(crate) fills: Count,
    pub(crate) zeroed: Count,
    pub(crate) ahead: Count,
    pub(crate) taken_out: Count,
    pub(crate) returned: Count,
    pub(crate) evicted: Count,
    pub(crate) discarded: Count,
    pub(crate) write_backs: Count,
    pub(crate) copied: Count,
    pub(crate) read_bytes: Count,
    pub(crate) written_bytes: Count,
    pub(crate) failures: Count,
    pub(crate) poisoned: Count,
    pub(crate) denied: Count,
    pub(crate) latched: Mutex<Option<String>>,
    /// First permanent failure.
    lasting: Mutex<Option<String>>,
}

impl Counters {
    /// Records a permanent failure; the first one is kept.
    pub(crate) fn break_for(&self, message: String) {
        lock(&self.lasting).get_or_insert(message);
    }

    pub(crate) fn stats(&self, resident_bytes: u64, faults: &[Recorder]) -> RegionStats {
        let mut histogram = Histogram::new();
        faults.iter().for_each(|recorder| recorder.add_to(&mut histogram));
        let latched = lock(&self.lasting).clone().or_else(|| lock(&self.latched).clone());
        RegionStats {
            faults: self.faults.get(),
            spurious: self.spurious.get(),
            fills: self.fills.get(),
            zeroed: self.zeroed.get(),
            ahead: self.ahead.get(),
            taken_out: self.taken_out.get(),
            returned: self.returned.get(),
            evicted: self.evicted.get(),
            discarded: self.discarded.get(),
            write_backs: self.write_backs.get(),
            copied: self.copied.get(),
            read_bytes: self.read_bytes.get(),
            written_bytes: self.written_bytes.get(),
            failures: self.failures.get(),
            poisoned: self.poisoned.get(),
            denied: self.denied.get(),
            resident_bytes,
            fault: histogram.quantiles(),
            latched,
        }
    }
}

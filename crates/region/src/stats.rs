//! What a region has done.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_sys::histogram::{Histogram, Quantiles, Recorder};

use crate::lock;

/// Counters of a region, all since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionStats {
    /// Faults that were told: threads that found a block absent.
    pub faults: u64,
    /// Faults for blocks that were there when they were looked at.
    pub spurious: u64,
    /// Blocks read from the source.
    pub fills: u64,
    /// Blocks that began as zeros.
    pub zeroed: u64,
    /// Blocks asked for ahead of a fault.
    pub ahead: u64,
    /// Blocks taken out of their place.
    pub taken_out: u64,
    /// Those that came back without a transfer.
    pub returned: u64,
    /// Blocks that left memory.
    pub evicted: u64,
    /// Those whose bytes nobody needed.
    pub discarded: u64,
    /// Blocks written to the source.
    pub write_backs: u64,
    /// Blocks whose frame came by copying although the region moves.
    pub copied: u64,
    /// Bytes read from the source.
    pub read_bytes: u64,
    /// Bytes written to the source.
    pub written_bytes: u64,
    /// Reads and writes that failed and were tried again or given up.
    pub failures: u64,
    /// Blocks that cannot be read.
    pub poisoned: u64,
    /// Frames that the budget refused while the cap had room for them.
    pub denied: u64,
    /// Bytes of frames now, staging included.
    pub resident_bytes: u64,
    /// From the moment a fault was told to the moment its block was in place.
    pub fault: Quantiles,
    /// What the source said when it refused to take a block, until it took one again; or why what
    /// was written may be lost, for good: it did not sync, or a pager cannot go on.
    pub latched: Option<String>,
}

/// A count that any thread adds to.
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
    /// The first failure that does not mend.
    lasting: Mutex<Option<String>>,
}

impl Counters {
    /// Something has failed for good.
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

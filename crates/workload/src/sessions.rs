//! Session numbers, one per thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the threads of all runs of a workload, so that no two of them draw the same random
/// numbers.
#[derive(Debug, Default)]
pub(crate) struct Sessions(AtomicU64);

impl Sessions {
    /// Returns a number that no other session has. It is at least [`FIRST`]: the random streams
    /// below are those of loading.
    pub(crate) fn next(&self) -> u64 {
        FIRST + self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of sessions numbered before `number`.
    pub(crate) fn before(number: u64) -> u64 {
        number - FIRST
    }
}

/// First session number; the random streams below it generate parts of the initial data.
const FIRST: u64 = 1 << 40;

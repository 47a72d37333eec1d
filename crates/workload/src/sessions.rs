//! Numbers for threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the threads of all runs of a workload, so that no two of them draw the same random
/// numbers.
#[derive(Debug, Default)]
pub(crate) struct Sessions(AtomicU64);

impl Sessions {
    /// A number that nobody had. Streams of random numbers below it are those of loading.
    pub(crate) fn next(&self) -> u64 {
        FIRST + self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// How many had a number before this one was given.
    pub(crate) fn before(number: u64) -> u64 {
        number - FIRST
    }
}

/// Below are the streams of parts of the data.
const FIRST: u64 = 1 << 40;

//! Tracking of inserted records.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_sys::sync::lock;

/// Allocates the numbers of new records, and tracks the number below which all records exist: a
/// reader of the newest records must not meet one whose insertion is in progress.
#[derive(Debug)]
pub(super) struct Newest {
    next: AtomicU64,
    count: AtomicU64,
    /// Numbers of inserted records that follow one whose insertion is in progress.
    early: Mutex<BTreeSet<u64>>,
}

impl Newest {
    pub(super) fn new(count: u64) -> Self {
        let early = Mutex::default();
        Self { next: AtomicU64::new(count), count: AtomicU64::new(count), early }
    }

    /// Returns the number below which all records exist.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Allocates the number of a record to be inserted.
    pub(super) fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Reports that the insertion of the record is complete.
    pub(super) fn end(&self, number: u64) {
        let mut early = lock(&self.early);
        early.insert(number);
        let mut count = self.count.load(Ordering::Relaxed);
        while early.remove(&count) {
            count += 1;
        }
        self.count.store(count, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_in_order() {
        let newest = Newest::new(3);
        let numbers: Vec<u64> = (0..4).map(|_| newest.begin()).collect();
        assert_eq!(numbers, [3, 4, 5, 6]);
        let mut count_after = |number| {
            newest.end(number);
            newest.count()
        };
        assert_eq!([4, 6, 3, 5].map(&mut count_after), [3, 3, 5, 7]);
    }
}

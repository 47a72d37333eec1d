//! Parking lot: threads sleep here until the word of a latch or of a page's state changes.
//!
//! A word that has sleepers carries a *parked* bit. A sleeper sets the bit under the bucket's lock
//! and then waits; the thread that changes the word clears the bit in the same atomic operation and
//! wakes the bucket. The bucket's lock prevents a lost wake-up between the check of the word and
//! the sleep.
//!
//! The design is that of the crate `parking_lot_core`. It is written out here so that loom, which
//! replaces the atomics and locks of a program by its own, explores its interleavings.
//!
//! Locking order: a bucket's lock is the innermost of all; no other lock is taken under it.

use std::time::Instant;

use crate::sync::{Condvar, Mutex, lock};

/// Number of buckets, a power of two. Words may share a bucket: their threads then wake spuriously.
const BUCKETS: usize = if cfg!(loom) { 1 } else { 256 };

/// Result of a sleeper's check of its word under the bucket's lock.
pub enum Look<T> {
    /// The wait is over.
    Done(T),
    /// The word is busy and its parked bit is set: the thread sleeps.
    Sleep,
    /// As [`Look::Sleep`], but the thread checks again at this time even if it is not woken.
    SleepUntil(Instant),
}

#[derive(Debug)]
struct Bucket {
    lock: Mutex<()>,
    wake: Condvar,
}

/// A fixed set of buckets for sleeping threads, chosen by the address of the awaited word.
#[derive(Debug)]
pub struct ParkingLot {
    buckets: Vec<Bucket>,
    #[cfg(loom)]
    readers_pass: bool,
}

impl Default for ParkingLot {
    fn default() -> Self {
        Self::new()
    }
}

impl ParkingLot {
    /// Creates a lot without sleepers.
    #[must_use]
    pub fn new() -> Self {
        let bucket = || Bucket { lock: Mutex::new(()), wake: Condvar::new() };
        Self {
            buckets: (0..BUCKETS).map(|_| bucket()).collect(),
            #[cfg(loom)]
            readers_pass: false,
        }
    }

    /// Creates a lot whose readers never yield to writers, instead of without a limit: loom, which
    /// has no clock, explores both sides of the limit.
    #[cfg(loom)]
    #[must_use]
    pub fn with_passing_readers() -> Self {
        Self { readers_pass: true, ..Self::new() }
    }

    #[cfg(loom)]
    pub(crate) fn readers_pass(&self) -> bool {
        self.readers_pass
    }

    fn bucket(&self, key: usize) -> &Bucket {
        // Words are 32 or 64 bytes apart; the multiplier spreads their addresses.
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15_usize) >> 40;
        &self.buckets[hash & (BUCKETS - 1)]
    }

    /// Sleeps until `look` returns [`Look::Done`], and returns its value, or `None` if `deadline`
    /// has passed. `key` is the address of the awaited word.
    ///
    /// `look` must set the word's parked bit before it returns [`Look::Sleep`].
    pub fn park<T>(
        &self,
        key: usize,
        deadline: Option<Instant>,
        mut look: impl FnMut() -> Look<T>,
    ) -> Option<T> {
        let bucket = self.bucket(key);
        let mut guard = lock(&bucket.lock);
        loop {
            let until = match look() {
                Look::Done(value) => return Some(value),
                Look::Sleep => deadline,
                Look::SleepUntil(time) => Some(deadline.map_or(time, |end| end.min(time))),
            };
            guard = match until {
                None => bucket.wake.wait(guard).unwrap_or_else(|e| e.into_inner()),
                Some(until) => {
                    let now = Instant::now();
                    if deadline.is_some_and(|end| end < now) {
                        return None;
                    }
                    let left = until.saturating_duration_since(now);
                    let woken = bucket.wake.wait_timeout(guard, left);
                    woken.unwrap_or_else(|e| e.into_inner()).0
                }
            };
        }
    }

    /// Wakes all threads that sleep on `key`, after the word was changed and its parked bit
    /// cleared.
    pub fn unpark(&self, key: usize) {
        let bucket = self.bucket(key);
        drop(lock(&bucket.lock));
        bucket.wake.notify_all();
    }
}

//! Where threads sleep until a latch or a page's state changes.
//!
//! A word that has sleepers carries a *parked* bit. A sleeper sets it under the bucket's lock and
//! then waits; whoever changes the word clears the bit with the same atomic step and wakes the
//! bucket. The bucket's lock closes the gap between "I saw it busy" and "I sleep".
//!
//! Locking order: a bucket's lock is the innermost of all; nothing is locked under it.

use std::time::Instant;

use crate::sync::{Condvar, Mutex, lock};

/// Buckets, a power of two. Threads of different words may share one: they wake, look, sleep on.
const BUCKETS: usize = if cfg!(loom) { 1 } else { 256 };

/// What a sleeper finds when it looks at its word under the bucket's lock.
pub enum Look<T> {
    /// The wait is over.
    Done(T),
    /// The word is busy and its parked bit is set: sleep.
    Sleep,
    /// As [`Look::Sleep`], and look again at this time, woken or not.
    SleepUntil(Instant),
}

#[derive(Debug)]
struct Bucket {
    lock: Mutex<()>,
    wake: Condvar,
}

/// A fixed set of places to sleep, chosen by the address of the word waited for.
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
    /// A lot where nobody sleeps.
    #[must_use]
    pub fn new() -> Self {
        let bucket = || Bucket { lock: Mutex::new(()), wake: Condvar::new() };
        Self {
            buckets: (0..BUCKETS).map(|_| bucket()).collect(),
            #[cfg(loom)]
            readers_pass: false,
        }
    }

    /// A lot whose readers never wait for writers that go first, instead of for ever: loom, which
    /// has no clock, explores either side of the limit.
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
        // Words lie 32 or 64 bytes apart; the multiplier spreads their addresses.
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15_usize) >> 40;
        &self.buckets[hash & (BUCKETS - 1)]
    }

    /// Sleeps until `look` is done, or `None` when `deadline` has passed.
    ///
    /// `look` must set the word's parked bit before it says [`Look::Sleep`].
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

    /// Wakes everyone who sleeps for `key`, after the word was changed and its parked bit cleared.
    pub fn unpark(&self, key: usize) {
        let bucket = self.bucket(key);
        drop(lock(&bucket.lock));
        bucket.wake.notify_all();
    }
}

//! Table of the locks and pins of objects.
//!
//! An object that is neither locked nor pinned costs only a bit of its group. Objects that are held
//! have records here. The bit is set and cleared under the group's latch together with the record,
//! so a thread that has the latch and finds the bit clear need not look up the record.
//!
//! Readers wait while a writer waits, so that a stream of readers cannot starve writers.
//!
//! Locking order: a group's latch, then a shard of records. No thread sleeps with a latch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;
use terrace_sys::sync::lock;

use crate::id::ObjectId;

/// Number of shards, a power of two. Waiters for different objects of a shard wake each other
/// spuriously.
const SHARDS: usize = 64;

/// Mode of an object's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
}

/// Manner in which a lock or pin is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// By dropping a guard.
    Guard,
    /// By id.
    Bare,
}

/// Locks and pins of one object, and its waiters.
///
/// Locks and pins taken without a guard are counted separately as well, so that a release by id
/// never releases the hold of a guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) readers: u32,
    pub(crate) writer: bool,
    pub(crate) pins: u32,
    /// The share of the readers, the writer and the pins that is held without a guard.
    pub(crate) bare_readers: u32,
    pub(crate) bare_writer: bool,
    pub(crate) bare_pins: u32,
    /// A reader waits to upgrade.
    pub(crate) upgrading: bool,
    /// Threads that wait to write or to change the object, without the one that upgrades.
    pub(crate) waiting: u32,
}

impl Record {
    /// True if the object is locked or pinned, as the group's bit says.
    pub(crate) fn is_held(&self) -> bool {
        self.readers > 0 || self.writer || self.pins > 0
    }

    /// True if the object is locked in any mode.
    pub(crate) fn is_locked(&self) -> bool {
        self.readers > 0 || self.writer
    }

    /// Releases the lock and returns true, if it is held in this mode and manner.
    pub(crate) fn give(&mut self, mode: LockMode, hold: Hold) -> bool {
        let held = self.holds(mode, hold);
        match mode {
            LockMode::Read if held => self.readers -= 1,
            LockMode::Write if held => self.writer = false,
            _ => return false,
        }
        self.count_bare(mode, hold, false);
        true
    }

    /// True if the lock is held in this mode and manner.
    pub(crate) fn holds(&self, mode: LockMode, hold: Hold) -> bool {
        match (mode, hold) {
            (LockMode::Read, Hold::Bare) => self.bare_readers > 0,
            (LockMode::Read, Hold::Guard) => self.readers > self.bare_readers,
            (LockMode::Write, Hold::Bare) => self.bare_writer,
            (LockMode::Write, Hold::Guard) => self.writer && !self.bare_writer,
        }
    }

    /// Counts a lock that was taken or released without a guard.
    pub(crate) fn count_bare(&mut self, mode: LockMode, hold: Hold, taken: bool) {
        match (hold, mode) {
            (Hold::Guard, _) => {}
            (Hold::Bare, LockMode::Write) => self.bare_writer = taken,
            (Hold::Bare, LockMode::Read) if taken => self.bare_readers += 1,
            (Hold::Bare, LockMode::Read) => self.bare_readers -= 1,
        }
    }

    /// Takes the lock and returns true, if it is free. `queued`: the caller is one of the waiters.
    pub(crate) fn take(&mut self, mode: LockMode, queued: bool) -> bool {
        match mode {
            LockMode::Read => {
                let others = self.waiting > 0 || self.upgrading;
                let free = !self.writer && !others && self.readers < u32::MAX;
                self.readers += u32::from(free);
                free
            }
            LockMode::Write => {
                let free = !self.is_locked();
                self.writer |= free;
                self.waiting -= u32::from(free && queued);
                free
            }
        }
    }
}

/// Locks and pins of a store's objects.
pub(crate) struct Locks {
    shards: Vec<Shard>,
}

/// A shard of the records.
#[derive(Default)]
pub(crate) struct Shard {
    records: Mutex<FxHashMap<ObjectId, Record>>,
    changed: Condvar,
    /// Threads that sleep, or are about to and hold the records.
    asleep: AtomicUsize,
}

/// Records of a shard under its mutex.
pub(crate) type Records<'a> = MutexGuard<'a, FxHashMap<ObjectId, Record>>;

impl Locks {
    pub(crate) fn new() -> Self {
        let shard = Shard::default;
        Self { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Returns the shard of an object.
    pub(crate) fn shard(&self, id: ObjectId) -> &Shard {
        let hash = id.to_bits().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        &self.shards[usize::try_from(hash).unwrap_or(0) % SHARDS]
    }

    /// Returns the number of objects that are locked or pinned.
    pub(crate) fn held(&self) -> u64 {
        let held = |shard: &Shard| shard.records().values().filter(|it| it.is_held()).count();
        self.shards.iter().map(|shard| terrace_sys::size::to_u64(held(shard))).sum()
    }
}

impl Shard {
    pub(crate) fn records(&self) -> Records<'_> {
        lock(&self.records)
    }

    /// Sleeps until a record of the shard changes. Returns `None` if the deadline has passed.
    pub(crate) fn sleep<'a>(
        &self,
        records: Records<'a>,
        deadline: Option<Instant>,
    ) -> Option<Records<'a>> {
        let left = match deadline {
            None => None,
            Some(deadline) => {
                let left = deadline.checked_duration_since(Instant::now());
                Some(left.filter(|it| !it.is_zero())?)
            }
        };
        self.asleep.fetch_add(1, Ordering::Relaxed);
        let woken = match left {
            None => self.changed.wait(records).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let woken = self.changed.wait_timeout(records, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        Some(woken)
    }

    /// Wakes the sleeping threads after a change of the records; without any, makes no system call.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lets_in_readers_or_one_writer() {
        let mut record = Record::default();
        assert!(record.take(LockMode::Read, false) && record.take(LockMode::Read, false));
        assert!(!record.take(LockMode::Write, false));
        record.waiting += 1;
        assert!(!record.take(LockMode::Read, false), "a writer waits");
        record.readers = 0;
        assert!(record.take(LockMode::Write, true) && record.waiting == 0);
        assert!(!record.take(LockMode::Read, false) && !record.take(LockMode::Write, false));
        assert!(record.is_held() && record.is_locked());
        assert!(Record { pins: 1, ..Record::default() }.is_held());
    }
}

//! Who holds the locks and pins of objects.
//!
//! An object that nobody locks or pins costs nothing for it: one bit of its group says so. Those
//! that are held have records here. The bit is set and cleared under the group's latch together
//! with the record, so whoever has the latch and finds the bit clear need not look.
//!
//! Readers wait while a writer waits: writers are not kept waiting by readers who come and go.
//!
//! Locking order: a group's latch, then a shard of records. Nobody sleeps with a latch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::id::ObjectId;

/// Shards, a power of two: waiters of different objects that share one wake and look for nothing.
const SHARDS: usize = 64;

/// How an object is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Together with other readers.
    Read,
    /// Alone.
    Write,
}

/// How a lock or pin is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// By dropping a guard.
    Guard,
    /// By id.
    Bare,
}

/// What is held of one object, and who waits.
///
/// What was taken without a guard is counted by itself as well: nobody gives back by id what a
/// guard holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) readers: u32,
    pub(crate) writer: bool,
    pub(crate) pins: u32,
    /// Of the readers, the writer and the pins: those without a guard.
    pub(crate) bare_readers: u32,
    pub(crate) bare_writer: bool,
    pub(crate) bare_pins: u32,
    /// A reader waits to be the writer.
    pub(crate) upgrading: bool,
    /// Threads that wait to write or to change, the one that upgrades left out.
    pub(crate) waiting: u32,
}

impl Record {
    /// Whether anything is held, as the group's bit says.
    pub(crate) fn is_held(&self) -> bool {
        self.readers > 0 || self.writer || self.pins > 0
    }

    /// Whether the lock is held in any way.
    pub(crate) fn is_locked(&self) -> bool {
        self.readers > 0 || self.writer
    }

    /// Gives the lock back, if it is held that way.
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

    /// Whether the lock is held that way.
    pub(crate) fn holds(&self, mode: LockMode, hold: Hold) -> bool {
        match (mode, hold) {
            (LockMode::Read, Hold::Bare) => self.bare_readers > 0,
            (LockMode::Read, Hold::Guard) => self.readers > self.bare_readers,
            (LockMode::Write, Hold::Bare) => self.bare_writer,
            (LockMode::Write, Hold::Guard) => self.writer && !self.bare_writer,
        }
    }

    /// Notes who took the lock, or gave it back.
    pub(crate) fn count_bare(&mut self, mode: LockMode, hold: Hold, taken: bool) {
        match (hold, mode) {
            (Hold::Guard, _) => {}
            (Hold::Bare, LockMode::Write) => self.bare_writer = taken,
            (Hold::Bare, LockMode::Read) if taken => self.bare_readers += 1,
            (Hold::Bare, LockMode::Read) => self.bare_readers -= 1,
        }
    }

    /// Takes the lock if it is to be had; `queued`: the caller is one of those who wait.
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

/// Which objects are held.
pub(crate) struct Locks {
    shards: Vec<Shard>,
}

/// Some of the records.
#[derive(Default)]
pub(crate) struct Shard {
    records: Mutex<FxHashMap<ObjectId, Record>>,
    changed: Condvar,
    /// Threads that sleep, or are about to and have the records.
    asleep: AtomicUsize,
}

/// The records of a shard, for as long as nobody else may change them.
pub(crate) type Records<'a> = MutexGuard<'a, FxHashMap<ObjectId, Record>>;

impl Locks {
    pub(crate) fn new() -> Self {
        let shard = Shard::default;
        Self { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// The shard of an object.
    pub(crate) fn shard(&self, id: ObjectId) -> &Shard {
        let hash = id.to_bits().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        &self.shards[usize::try_from(hash).unwrap_or(0) % SHARDS]
    }

    /// How many objects are held.
    pub(crate) fn held(&self) -> u64 {
        let held = |shard: &Shard| shard.records().values().filter(|it| it.is_held()).count();
        self.shards.iter().map(|shard| terrace_sys::size::to_u64(held(shard))).sum()
    }
}

impl Shard {
    pub(crate) fn records(&self) -> Records<'_> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until something changes or the time is over; none then.
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

    /// Wakes who sleeps, after a change of the records: a call of the kernel only if somebody does.
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

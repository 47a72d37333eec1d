//! A shard of the records of held objects, and the threads that wait for its changes.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;
use terrace_sys::sync::lock;

use super::record::Record;
use crate::id::ObjectId;

/// A shard of the records of held objects, and the condition that its waiting threads sleep on.
#[derive(Default)]
pub(crate) struct Shard {
    records: Mutex<FxHashMap<ObjectId, Record>>,
    changed: Condvar,
    /// Threads that sleep, or are about to and hold the records.
    asleep: AtomicUsize,
}

/// Records of a shard under its mutex.
pub(crate) type Records<'a> = MutexGuard<'a, FxHashMap<ObjectId, Record>>;

impl Shard {
    #[inline]
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
    #[inline]
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}

/// Removes the record of an object that is neither held nor waited for.
pub(crate) fn forget_empty(records: &mut Records<'_>, id: ObjectId) {
    if let Entry::Occupied(record) = records.entry(id)
        && record.get().is_empty()
    {
        record.remove();
    }
}

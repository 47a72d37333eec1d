//! Queue of the operations that wait for the lock of an object.

use std::time::{Duration, Instant};

use super::record::Record;
use super::shard::{Records, Shard, forget_empty};
use crate::error::ObjectError;
use crate::groups::group::Latched;
use crate::id::ObjectId;

/// Time limit of one operation's waits.
pub(crate) struct Wait {
    patience: Duration,
    since: Option<Instant>,
}

impl Wait {
    #[inline]
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, since: None }
    }

    /// Returns the deadline. The clock starts with the first call.
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        let since = *self.since.get_or_insert_with(Instant::now);
        since.checked_add(self.patience)
    }

    pub(super) fn error(&self, id: ObjectId) -> ObjectError {
        let waited_ms = self.since.map_or(0, |since| since.elapsed().as_millis());
        ObjectError::LockTimeout { id, waited_ms }
    }
}

/// Entry of an operation in the queue for an object's lock. Dropping it leaves the queue.
pub(crate) struct Queue<'a> {
    shard: &'a Shard,
    id: ObjectId,
    changes: bool,
    queued: bool,
}

impl<'a> Queue<'a> {
    /// Makes the entry of an operation that does not wait yet. `changes`: the operation changes the
    /// object, and goes before readers that come later.
    #[inline]
    pub(super) fn new(shard: &'a Shard, id: ObjectId, changes: bool) -> Self {
        Self { shard, id, changes, queued: false }
    }

    /// Returns the latch if no lock of another thread is in the way (`busy`). Otherwise releases
    /// the latch, sleeps until the records change and returns `None`; the caller then latches and
    /// checks again. A waiting writer goes before readers that come later.
    pub(crate) fn pass<'b>(
        &mut self,
        latched: Latched<'b>,
        wait: &mut Wait,
        busy: impl Fn(&Record) -> bool,
    ) -> Result<Option<Latched<'b>>, ObjectError> {
        let mut records = self.shard.records();
        let record = records.get_mut(&self.id).filter(|record| busy(record));
        let Some(record) = record else { return Ok(Some(latched)) };
        if self.changes && !std::mem::replace(&mut self.queued, true) {
            record.enqueue();
        }
        drop(latched);
        match self.shard.sleep(records, wait.deadline()) {
            Some(_) => Ok(None),
            None => Err(wait.error(self.id)),
        }
    }
}

impl Drop for Queue<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.queued {
            leave_queue(self.shard, &mut self.shard.records(), self.id, true);
        }
    }
}

/// Removes a thread from the writers that wait for an object.
pub(super) fn leave_queue(shard: &Shard, records: &mut Records<'_>, id: ObjectId, queued: bool) {
    if queued && let Some(record) = records.get_mut(&id) {
        record.leave_queue();
        forget_empty(records, id);
        shard.wake();
    }
}

//! Table of the locks and pins of objects.
//!
//! An object that is neither locked nor pinned costs only a bit of its group. Objects that are held
//! have records here. The bit is set and cleared under the group's latch together with the record,
//! so a thread that has the latch and finds the bit clear need not look up the record.
//!
//! Readers wait while a writer waits, so that a stream of readers cannot starve writers.
//!
//! Locking order: a group's latch, then a shard of records. No thread sleeps with a latch.

mod hold;
pub(crate) mod queue;
pub(crate) mod record;
mod shard;

use terrace_sys::size::to_u64;

use crate::error::ObjectError;
use crate::groups::group::{Group, View};
use crate::id::ObjectId;
use queue::Queue;
use record::{Hold, Record};
use shard::{Shard, forget_empty};

/// Number of shards, a power of two. Waiters for different objects of a shard wake each other
/// spuriously.
const SHARDS: usize = 64;

/// Locks and pins of a store's objects: their records, in shards by id.
pub(crate) struct Locks {
    shards: Vec<Shard>,
}

impl Locks {
    pub(crate) fn new() -> Self {
        let shard = Shard::default;
        Self { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Returns the shard of an object.
    #[inline]
    fn shard(&self, id: ObjectId) -> &Shard {
        let hash = id.to_bits().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        &self.shards[usize::try_from(hash).unwrap_or(0) % SHARDS]
    }

    /// Returns the number of objects that are locked or pinned.
    pub(crate) fn held(&self) -> u64 {
        let held = |shard: &Shard| shard.records().values().filter(|it| it.is_held()).count();
        self.shards.iter().map(|shard| to_u64(held(shard))).sum()
    }

    /// True if a thread holds the write lock of the object.
    pub(crate) fn is_write_locked(&self, id: ObjectId) -> bool {
        self.shard(id).records().get(&id).is_some_and(Record::is_writing)
    }

    /// Returns the queue entry with which an operation waits for the lock of an object. `changes`:
    /// the operation changes the object.
    #[inline]
    pub(crate) fn queue(&self, id: ObjectId, changes: bool) -> Queue<'_> {
        Queue::new(self.shard(id), id, changes)
    }

    /// Checks that an object of a latched group is not pinned.
    #[inline]
    pub(crate) fn is_unpinned(
        &self,
        id: ObjectId,
        view: View,
        slot: u32,
    ) -> Result<(), ObjectError> {
        let held = view.is_marked(slot);
        let pinned = || self.shard(id).records().get(&id).is_some_and(Record::is_pinned);
        if held && pinned() { Err(ObjectError::Pinned(id)) } else { Ok(()) }
    }

    /// Records a pin of an object in a latched group.
    pub(crate) fn pin(&self, id: ObjectId, hold: Hold, group: &Group, slot: u32) {
        let mut records = self.shard(id).records();
        records.entry(id).or_default().pin(hold);
        group.set_marked(slot, true);
    }

    /// Releases the write lock of an object that its holder removed from a latched group.
    pub(crate) fn forget(&self, id: ObjectId, group: &Group, slot: u32) {
        let shard = self.shard(id);
        let mut records = shard.records();
        if let Some(record) = records.get_mut(&id) {
            record.forget_writer();
        }
        group.set_marked(slot, false);
        forget_empty(&mut records, id);
        shard.wake();
    }
}

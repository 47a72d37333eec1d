//! Locks and pins of objects, held across operations.

use std::collections::hash_map::Entry;
use std::fmt;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::error::ObjectError;
use crate::group::Group;
use crate::id::ObjectId;
use crate::locks::{Hold, LockMode, Record, Records, Shard};
use crate::store::{By, Latched, ObjectStore, Wait, copy_out, copy_whole};
use crate::table::slot_of;

/// Read lock of an object: other threads may read the object too, but none may change it.
pub struct ReadGuard<'a> {
    store: &'a ObjectStore,
    id: ObjectId,
}

/// Write lock of an object: no other thread reads or changes the object.
pub struct WriteGuard<'a> {
    store: &'a ObjectStore,
    id: ObjectId,
}

/// Pin of an object: until it is dropped the object keeps its address and is neither removed nor
/// resized. All other operations on it work as usual.
pub struct Pin<'a> {
    store: &'a ObjectStore,
    id: ObjectId,
    at: *mut u8,
    len: usize,
}

// SAFETY: a pin is an address and the promise that it stays valid; code that reads or writes there
// answers for races, on this thread or another.
unsafe impl Send for Pin<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pin<'_> {}

impl ObjectStore {
    /// Locks an object for reading, waiting up to `timeout`; [`Duration::ZERO`] tries once, and
    /// [`Duration::MAX`] waits for ever.
    ///
    /// A thread that waits for a lock that it holds itself waits until the timeout.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::LockTimeout`].
    pub fn read_lock(&self, id: ObjectId, timeout: Duration) -> Result<ReadGuard<'_>, ObjectError> {
        self.lock_as(id, LockMode::Read, timeout, Hold::Guard)?;
        Ok(ReadGuard { store: self, id })
    }

    /// Locks an object for writing, as [`ObjectStore::read_lock`].
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::LockTimeout`].
    pub fn write_lock(
        &self,
        id: ObjectId,
        timeout: Duration,
    ) -> Result<WriteGuard<'_>, ObjectError> {
        self.lock_as(id, LockMode::Write, timeout, Hold::Guard)?;
        Ok(WriteGuard { store: self, id })
    }

    /// Locks an object without a guard. [`ObjectStore::unlock`] releases the lock, on any thread.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::LockTimeout`].
    pub fn lock(&self, id: ObjectId, mode: LockMode, timeout: Duration) -> Result<(), ObjectError> {
        self.lock_as(id, mode, timeout, Hold::Bare)
    }

    fn lock_as(
        &self,
        id: ObjectId,
        mode: LockMode,
        timeout: Duration,
        hold: Hold,
    ) -> Result<(), ObjectError> {
        let (group, shard) = self.lock_places(id)?;
        let (mut wait, mut queued) = (Wait::new(timeout), false);
        loop {
            let latched = self.latch(group);
            let mut records = shard.records();
            if !group.view().is_present(slot_of(id)) || !self.table.is_current(id) {
                leave_queue(shard, &mut records, id, queued);
                return Err(ObjectError::NotFound(id));
            }
            let record = records.entry(id).or_default();
            if record.take(mode, queued) {
                record.count_bare(mode, hold, true);
                group.set_marked(slot_of(id), true);
                return Ok(());
            }
            if mode == LockMode::Write && !queued {
                record.waiting += 1;
                queued = true;
            }
            drop(latched);
            if shard.sleep(records, wait.deadline()).is_none() {
                leave_queue(shard, &mut shard.records(), id, queued);
                return Err(wait.error(id));
            }
        }
    }

    /// Releases a lock that [`ObjectStore::lock`] took. Guards release theirs when dropped.
    ///
    /// # Errors
    /// [`ObjectError::NotLocked`] when the object has no such lock.
    pub fn unlock(&self, id: ObjectId, mode: LockMode) -> Result<(), ObjectError> {
        self.unlock_as(id, mode, Hold::Bare)
    }

    fn unlock_as(&self, id: ObjectId, mode: LockMode, hold: Hold) -> Result<(), ObjectError> {
        let held = self.with_record(id, |record| record.give(mode, hold));
        if held { Ok(()) } else { Err(ObjectError::NotLocked(id)) }
    }

    /// Upgrades a read lock to the write lock once it is the only read lock, without releasing it
    /// in between. On failure the read lock is kept.
    ///
    /// # Errors
    /// [`ObjectError::UpgradeConflict`] when another reader is already waiting to upgrade: one of
    /// the two has to release its lock. [`ObjectError::LockTimeout`]; [`ObjectError::NotLocked`],
    /// also when another thread releases the caller's lock meanwhile.
    pub fn upgrade(&self, id: ObjectId, timeout: Duration) -> Result<(), ObjectError> {
        self.upgrade_as(id, timeout, Hold::Bare)
    }

    fn upgrade_as(&self, id: ObjectId, timeout: Duration, hold: Hold) -> Result<(), ObjectError> {
        let shard = self.locks.shard(id);
        let mut wait = Wait::new(timeout);
        let mut records = shard.records();
        let record = records.get_mut(&id).filter(|record| record.holds(LockMode::Read, hold));
        let Some(record) = record else { return Err(ObjectError::NotLocked(id)) };
        if record.upgrading {
            return Err(ObjectError::UpgradeConflict(id));
        }
        record.upgrading = true;
        loop {
            // The record stays as long as the caller's read lock does.
            let Some(record) = records.get_mut(&id) else { return Err(ObjectError::NotLocked(id)) };
            if !record.holds(LockMode::Read, hold) {
                record.upgrading = false;
                forget_empty(&mut records, id);
                shard.wake();
                return Err(ObjectError::NotLocked(id));
            }
            if record.readers == 1 {
                record.give(LockMode::Read, hold);
                *record = Record { writer: true, upgrading: false, ..*record };
                record.count_bare(LockMode::Write, hold, true);
                return Ok(());
            }
            if let Some(woken) = shard.sleep(records, wait.deadline()) {
                records = woken;
                continue;
            }
            if let Some(record) = shard.records().get_mut(&id) {
                record.upgrading = false;
            }
            shard.wake();
            return Err(wait.error(id));
        }
    }

    /// Downgrades the write lock to a read lock without releasing it in between.
    ///
    /// # Errors
    /// [`ObjectError::NotLocked`] when the write lock is not held.
    pub fn downgrade(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.downgrade_as(id, Hold::Bare)
    }

    fn downgrade_as(&self, id: ObjectId, hold: Hold) -> Result<(), ObjectError> {
        let held = self.with_record(id, |record| {
            let held = record.give(LockMode::Write, hold);
            if held {
                record.readers = 1;
                record.count_bare(LockMode::Read, hold, true);
            }
            held
        });
        if held { Ok(()) } else { Err(ObjectError::NotLocked(id)) }
    }

    /// Pins an object at its address until the pin is dropped. An object that was pinned once has a
    /// run of its own, aligned to 64 bytes.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::OutOfMemory`].
    pub fn pin(&self, id: ObjectId) -> Result<Pin<'_>, ObjectError> {
        let (at, len) = self.pin_as(id, Hold::Guard)?;
        Ok(Pin { store: self, id, at, len })
    }

    /// Pins an object without a guard, until [`ObjectStore::unpin`]. Returns its address and
    /// length.
    ///
    /// # Errors
    /// As [`ObjectStore::pin`].
    pub fn pin_raw(&self, id: ObjectId) -> Result<(*mut u8, usize), ObjectError> {
        self.pin_as(id, Hold::Bare)
    }

    fn pin_as(&self, id: ObjectId, hold: Hold) -> Result<(*mut u8, usize), ObjectError> {
        self.change(id, By::Holder, |editor, slot| {
            editor.move_out(slot)?;
            let found = editor.find(slot).ok_or(ObjectError::NotFound(id))?;
            let mut records = self.locks.shard(id).records();
            let record = records.entry(id).or_default();
            record.pins += 1;
            record.bare_pins += u32::from(hold == Hold::Bare);
            editor.group.set_marked(slot, true);
            Ok((found.at, found.len))
        })
    }

    /// Releases a pin that [`ObjectStore::pin_raw`] took. Guards release theirs when dropped.
    ///
    /// # Errors
    /// [`ObjectError::NotPinned`].
    pub fn unpin(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.unpin_as(id, Hold::Bare)
    }

    fn unpin_as(&self, id: ObjectId, hold: Hold) -> Result<(), ObjectError> {
        let pinned = self.with_record(id, |record| {
            let pinned = match hold {
                Hold::Guard => record.pins > record.bare_pins,
                Hold::Bare => record.bare_pins > 0,
            };
            record.pins -= u32::from(pinned);
            record.bare_pins -= u32::from(pinned && hold == Hold::Bare);
            pinned
        });
        if pinned { Ok(()) } else { Err(ObjectError::NotPinned(id)) }
    }

    /// True if a thread holds the write lock of the object.
    pub(crate) fn is_write_locked(&self, id: ObjectId) -> bool {
        self.locks.shard(id).records().get(&id).is_some_and(|record| record.writer)
    }

    /// Returns the number of objects that are locked or pinned.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.locks.held()
    }

    fn lock_places(&self, id: ObjectId) -> Result<(&Group, &Shard), ObjectError> {
        let group = self.table.get(self.group_of(id)).ok_or(ObjectError::NotFound(id))?;
        Ok((group, self.locks.shard(id)))
    }

    /// Changes the record of a held object, and removes it when nothing is held any more.
    fn with_record(&self, id: ObjectId, change: impl FnOnce(&mut Record) -> bool) -> bool {
        let Ok((group, shard)) = self.lock_places(id) else { return false };
        let latched = self.latch(group);
        let mut records = shard.records();
        let Entry::Occupied(mut record) = records.entry(id) else { return false };
        let changed = change(record.get_mut());
        if !record.get().is_held() && group.view().is_present(slot_of(id)) {
            latched.group.set_marked(slot_of(id), false);
        }
        if *record.get() == Record::default() {
            record.remove();
        }
        shard.wake();
        changed
    }

    /// Returns the latch if no lock of another thread is in the way (`busy`). Otherwise releases
    /// the latch, sleeps until the records change and returns `None`; the caller then latches and
    /// checks again. A waiting writer goes before readers that come later.
    pub(crate) fn pass<'a>(
        &self,
        latched: Latched<'a>,
        wait: &mut Wait,
        queue: &mut Queue<'_>,
        busy: impl Fn(&Record) -> bool,
    ) -> Result<Option<Latched<'a>>, ObjectError> {
        let mut records = queue.shard.records();
        let record = records.get_mut(&queue.id).filter(|record| busy(record));
        let Some(record) = record else { return Ok(Some(latched)) };
        if queue.changes && !std::mem::replace(&mut queue.queued, true) {
            record.waiting += 1;
        }
        drop(latched);
        match queue.shard.sleep(records, wait.deadline()) {
            Some(_) => Ok(None),
            None => Err(wait.error(queue.id)),
        }
    }

    /// Returns the place in which an operation waits for an object that is held.
    pub(crate) fn queue(&self, id: ObjectId, changes: bool) -> Queue<'_> {
        Queue { shard: self.locks.shard(id), id, changes, queued: false }
    }

    /// Checks that an object of a latched group is not pinned.
    pub(crate) fn is_unpinned(
        &self,
        id: ObjectId,
        view: crate::group::View,
        slot: u32,
    ) -> Result<(), ObjectError> {
        let held = view.is_marked(slot);
        let pinned = || self.locks.shard(id).records().get(&id).is_some_and(|it| it.pins > 0);
        if held && pinned() { Err(ObjectError::Pinned(id)) } else { Ok(()) }
    }

    /// Releases the write lock of an object that its holder removed from a latched group.
    pub(crate) fn forget(&self, id: ObjectId, group: &Group, slot: u32) {
        let shard = self.locks.shard(id);
        let mut records = shard.records();
        if let Some(record) = records.get_mut(&id) {
            (record.writer, record.bare_writer) = (false, false);
        }
        group.set_marked(slot, false);
        forget_empty(&mut records, id);
        shard.wake();
    }
}

fn forget_empty(records: &mut Records<'_>, id: ObjectId) {
    if let Entry::Occupied(record) = records.entry(id)
        && *record.get() == Record::default()
    {
        record.remove();
    }
}

/// Place of an operation among those that wait for an object's lock. Dropping it leaves the queue.
pub(crate) struct Queue<'a> {
    shard: &'a Shard,
    id: ObjectId,
    changes: bool,
    queued: bool,
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
fn leave_queue(shard: &Shard, records: &mut Records<'_>, id: ObjectId, queued: bool) {
    if queued && let Some(record) = records.get_mut(&id) {
        record.waiting -= 1;
        forget_empty(records, id);
        shard.wake();
    }
}

impl<'a> ReadGuard<'a> {
    /// Returns the id of the locked object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// As [`ObjectStore::get`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Buffer`].
    pub fn get(&self, to: &mut [u8]) -> Result<usize, ObjectError> {
        self.store.look(self.id, By::Holder, |found| copy_out(self.id, found, to))?
    }

    /// As [`ObjectStore::read_at`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`].
    pub fn read_at(&self, offset: usize, to: &mut [u8]) -> Result<(), ObjectError> {
        self.store.read_at_by(By::Holder, self.id, offset, to)
    }

    /// Returns a copy of the object.
    ///
    /// # Errors
    /// None: the object is there as long as its lock is held.
    pub fn get_vec(&self) -> Result<Vec<u8>, ObjectError> {
        self.store.look(self.id, By::Holder, copy_whole)
    }

    /// As [`ObjectStore::upgrade`]; a guard that could not be upgraded comes back with the reason.
    ///
    /// # Errors
    /// [`ObjectError::UpgradeConflict`], [`ObjectError::LockTimeout`].
    pub fn upgrade(self, timeout: Duration) -> Result<WriteGuard<'a>, (Self, ObjectError)> {
        if let Err(error) = self.store.upgrade_as(self.id, timeout, Hold::Guard) {
            return Err((self, error));
        }
        let read = ManuallyDrop::new(self);
        Ok(WriteGuard { store: read.store, id: read.id })
    }
}

impl fmt::Debug for ReadGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&self.id).finish()
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let given = self.store.unlock_as(self.id, LockMode::Read, Hold::Guard);
        debug_assert!(given.is_ok(), "{given:?}");
    }
}

impl<'a> WriteGuard<'a> {
    /// Returns the id of the locked object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// As [`ObjectStore::get`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Buffer`].
    pub fn get(&self, to: &mut [u8]) -> Result<usize, ObjectError> {
        self.store.look(self.id, By::Holder, |found| copy_out(self.id, found, to))?
    }

    /// As [`ObjectStore::read_at`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`].
    pub fn read_at(&self, offset: usize, to: &mut [u8]) -> Result<(), ObjectError> {
        self.store.read_at_by(By::Holder, self.id, offset, to)
    }

    /// Returns a copy of the object.
    ///
    /// # Errors
    /// None: the object is there as long as its lock is held.
    pub fn get_vec(&self) -> Result<Vec<u8>, ObjectError> {
        self.store.look(self.id, By::Holder, copy_whole)
    }

    /// As [`ObjectStore::put`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`], [`ObjectError::ReadOnly`].
    pub fn put(&mut self, from: &[u8]) -> Result<(), ObjectError> {
        self.store.put_by(By::Holder, self.id, from)
    }

    /// As [`ObjectStore::write_at`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`], [`ObjectError::ReadOnly`].
    pub fn write_at(&mut self, offset: usize, from: &[u8]) -> Result<(), ObjectError> {
        self.store.write_at_by(By::Holder, self.id, offset, from)
    }

    /// As [`ObjectStore::set_read_only`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::OutOfMemory`].
    pub fn set_read_only(&mut self, read_only: bool) -> Result<(), ObjectError> {
        self.store.set_read_only_by(By::Holder, self.id, read_only)
    }

    /// As [`ObjectStore::replace`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::OutOfMemory`], [`ObjectError::Pinned`], [`ObjectError::ReadOnly`],
    /// [`ObjectError::TooLong`].
    pub fn replace(&mut self, from: &[u8]) -> Result<(), ObjectError> {
        self.store.replace_by(By::Holder, self.id, from)
    }

    /// As [`ObjectStore::resize`], without waiting.
    ///
    /// # Errors
    /// As [`WriteGuard::replace`].
    pub fn resize(&mut self, len: usize) -> Result<(), ObjectError> {
        self.store.resize_by(By::Holder, self.id, len)
    }

    /// Removes the object and its lock; a guard whose object could not be removed comes back with
    /// the reason.
    ///
    /// # Errors
    /// [`ObjectError::Pinned`], [`ObjectError::ReadOnly`].
    pub fn remove(self) -> Result<(), (Self, ObjectError)> {
        if let Err(error) = self.store.remove_by(By::Holder, self.id) {
            return Err((self, error));
        }
        // The lock was removed with the object.
        let _gone = ManuallyDrop::new(self);
        Ok(())
    }

    /// Downgrades to a read lock without releasing the lock in between.
    #[must_use]
    pub fn downgrade(self) -> ReadGuard<'a> {
        let write = ManuallyDrop::new(self);
        let turned = write.store.downgrade_as(write.id, Hold::Guard);
        debug_assert!(turned.is_ok(), "{turned:?}");
        ReadGuard { store: write.store, id: write.id }
    }
}

impl fmt::Debug for WriteGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&self.id).finish()
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        let given = self.store.unlock_as(self.id, LockMode::Write, Hold::Guard);
        debug_assert!(given.is_ok(), "{given:?}");
    }
}

impl Pin<'_> {
    /// Returns the id of the pinned object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns the address of the object, valid until the pin is dropped.
    ///
    /// The caller answers for races when it reads or writes there: operations of other threads
    /// change the bytes meanwhile unless the object is locked.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.at
    }

    /// Returns the length of the object in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the object has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, at, len, .. } = self;
        f.debug_struct("Pin").field("id", id).field("at", at).field("len", len).finish()
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let given = self.store.unpin_as(self.id, Hold::Guard);
        debug_assert!(given.is_ok(), "{given:?}");
    }
}

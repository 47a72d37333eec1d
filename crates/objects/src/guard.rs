//! Locks and pins of objects, held across operations.

use std::fmt;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::error::ObjectError;
use crate::id::ObjectId;
use crate::locks::record::{Hold, LockMode};
use crate::objects::{By, copy_out, copy_whole};
use crate::store::ObjectStore;

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
// must prevent data races, on this thread or another.
unsafe impl Send for Pin<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pin<'_> {}

impl ObjectStore {
    /// Locks an object for reading, waiting up to `timeout`; [`Duration::ZERO`] tries once, and
    /// [`Duration::MAX`] waits forever.
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
        self.objects().locks().lock(self.objects().groups(), id, mode, timeout, hold)
    }

    /// Releases a lock that [`ObjectStore::lock`] took. Guards release theirs when dropped.
    ///
    /// # Errors
    /// [`ObjectError::NotLocked`] when the object has no such lock.
    pub fn unlock(&self, id: ObjectId, mode: LockMode) -> Result<(), ObjectError> {
        self.unlock_as(id, mode, Hold::Bare)
    }

    fn unlock_as(&self, id: ObjectId, mode: LockMode, hold: Hold) -> Result<(), ObjectError> {
        self.objects().locks().unlock(self.objects().groups(), id, mode, hold)
    }

    /// Upgrades a read lock to the write lock once it is the only read lock, without releasing it
    /// in between. On failure the read lock is kept.
    ///
    /// # Errors
    /// [`ObjectError::UpgradeConflict`] when another reader is already waiting to upgrade: one of
    /// the two has to release its lock. [`ObjectError::LockTimeout`]; [`ObjectError::NotLocked`],
    /// also when another thread releases the caller's lock meanwhile.
    pub fn upgrade(&self, id: ObjectId, timeout: Duration) -> Result<(), ObjectError> {
        self.objects().locks().upgrade(id, timeout, Hold::Bare)
    }

    /// Downgrades the write lock to a read lock without releasing it in between.
    ///
    /// # Errors
    /// [`ObjectError::NotLocked`] when the write lock is not held.
    pub fn downgrade(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.downgrade_as(id, Hold::Bare)
    }

    fn downgrade_as(&self, id: ObjectId, hold: Hold) -> Result<(), ObjectError> {
        self.objects().locks().downgrade(self.objects().groups(), id, hold)
    }

    /// Pins an object at its address until the pin is dropped. An object that was pinned once has a
    /// run of its own, aligned to 64 bytes.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::OutOfMemory`].
    pub fn pin(&self, id: ObjectId) -> Result<Pin<'_>, ObjectError> {
        let (at, len) = self.objects().pin(id, Hold::Guard)?;
        Ok(Pin { store: self, id, at, len })
    }

    /// Pins an object without a guard, until [`ObjectStore::unpin`]. Returns its address and
    /// length.
    ///
    /// # Errors
    /// As [`ObjectStore::pin`].
    pub fn pin_raw(&self, id: ObjectId) -> Result<(*mut u8, usize), ObjectError> {
        self.objects().pin(id, Hold::Bare)
    }

    /// Releases a pin that [`ObjectStore::pin_raw`] took. Guards release theirs when dropped.
    ///
    /// # Errors
    /// [`ObjectError::NotPinned`].
    pub fn unpin(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.unpin_as(id, Hold::Bare)
    }

    fn unpin_as(&self, id: ObjectId, hold: Hold) -> Result<(), ObjectError> {
        self.objects().locks().unpin(self.objects().groups(), id, hold)
    }

    /// Returns the number of objects that are locked or pinned.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.objects().locks().held()
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
        self.store.objects().look(self.id, By::Holder, |found| copy_out(self.id, found, to))?
    }

    /// As [`ObjectStore::read_at`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`].
    pub fn read_at(&self, offset: usize, to: &mut [u8]) -> Result<(), ObjectError> {
        self.store.objects().read_at(By::Holder, self.id, offset, to)
    }

    /// Returns a copy of the object.
    ///
    /// # Errors
    /// None: the object is there as long as its lock is held.
    pub fn get_vec(&self) -> Result<Vec<u8>, ObjectError> {
        self.store.objects().look(self.id, By::Holder, copy_whole)
    }

    /// As [`ObjectStore::upgrade`]; a guard that could not be upgraded comes back with the reason.
    ///
    /// # Errors
    /// [`ObjectError::UpgradeConflict`], [`ObjectError::LockTimeout`].
    pub fn upgrade(self, timeout: Duration) -> Result<WriteGuard<'a>, (Self, ObjectError)> {
        if let Err(error) = self.store.objects().locks().upgrade(self.id, timeout, Hold::Guard) {
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
        self.store.objects().look(self.id, By::Holder, |found| copy_out(self.id, found, to))?
    }

    /// As [`ObjectStore::read_at`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`].
    pub fn read_at(&self, offset: usize, to: &mut [u8]) -> Result<(), ObjectError> {
        self.store.objects().read_at(By::Holder, self.id, offset, to)
    }

    /// Returns a copy of the object.
    ///
    /// # Errors
    /// None: the object is there as long as its lock is held.
    pub fn get_vec(&self) -> Result<Vec<u8>, ObjectError> {
        self.store.objects().look(self.id, By::Holder, copy_whole)
    }

    /// As [`ObjectStore::put`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`], [`ObjectError::ReadOnly`].
    pub fn put(&mut self, from: &[u8]) -> Result<(), ObjectError> {
        self.store.objects().put_by(By::Holder, self.id, from)
    }

    /// As [`ObjectStore::write_at`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::Length`], [`ObjectError::ReadOnly`].
    pub fn write_at(&mut self, offset: usize, from: &[u8]) -> Result<(), ObjectError> {
        self.store.objects().write_at(By::Holder, self.id, offset, from)
    }

    /// As [`ObjectStore::set_read_only`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::OutOfMemory`].
    pub fn set_read_only(&mut self, read_only: bool) -> Result<(), ObjectError> {
        self.store.objects().set_read_only(By::Holder, self.id, read_only)
    }

    /// As [`ObjectStore::replace`], without waiting.
    ///
    /// # Errors
    /// [`ObjectError::OutOfMemory`], [`ObjectError::Pinned`], [`ObjectError::ReadOnly`],
    /// [`ObjectError::TooLong`].
    pub fn replace(&mut self, from: &[u8]) -> Result<(), ObjectError> {
        self.store.objects().replace(By::Holder, self.id, from)
    }

    /// As [`ObjectStore::resize`], without waiting.
    ///
    /// # Errors
    /// As [`WriteGuard::replace`].
    pub fn resize(&mut self, len: usize) -> Result<(), ObjectError> {
        self.store.objects().resize(By::Holder, self.id, len)
    }

    /// Removes the object and its lock; a guard whose object could not be removed comes back with
    /// the reason.
    ///
    /// # Errors
    /// [`ObjectError::Pinned`], [`ObjectError::ReadOnly`].
    pub fn remove(self) -> Result<(), (Self, ObjectError)> {
        if let Err(error) = self.store.objects().remove(By::Holder, self.id) {
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
    /// Code that reads or writes there must prevent data races: operations of other threads change
    /// the bytes meanwhile unless the object is locked.
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

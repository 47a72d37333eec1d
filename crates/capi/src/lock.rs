//! Object locks that are held across operations.

use std::ffi::c_void;
use std::sync::Arc;

use terrace_objects::{ObjectError, ObjectId, ObjectStore, ReadGuard, WriteGuard};

use crate::access::tell;
use crate::arguments::{
    buffer, patience, place, place_or_none, shared, take_handle, unique, values,
};
use crate::status::{Failure, Status, attempt, status};
use crate::store::{Objects, id, store};

/// A lock of an object, held until terrace_objects_unlock.
///
/// Its holder reads and changes the object by the terrace_lock_ functions, which do not wait,
/// except for terrace_lock_upgrade. The terrace_objects_ functions wait for locks, including those
/// of the caller: under a read lock, all that change the object; under a write lock, those that
/// read it as well.
///
/// A lock may be passed between threads, but must not be used by two threads at once. It keeps the
/// store alive: the store's handle may be closed.
pub struct Lock {
    /// Dropped before the reference to the store, since fields are dropped in order.
    held: Held,
    object: ObjectId,
    _store: Arc<ObjectStore>,
}

/// Guard of a locked object.
enum Held {
    Read(ReadGuard<'static>),
    Write(WriteGuard<'static>),
    /// No guard: the object was removed under the lock.
    Nothing,
}

/// Mode of a lock, for terrace_objects_lock.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum LockModeChoice {
    /// Shared with other readers: the object is not changed meanwhile.
    Read = 0,
    /// Exclusive: no other caller reads or changes the object.
    Write = 1,
}

impl Lock {
    fn new(
        objects: &Arc<ObjectStore>,
        object: ObjectId,
        mode: u32,
        timeout_ms: u64,
    ) -> Result<Self, Failure> {
        let kept = Arc::clone(objects);
        // SAFETY: the store keeps its address while the lock holds a reference to it, which is
        // dropped after the guard: the fields of a structure are dropped in order.
        let store: &'static ObjectStore = unsafe { &*Arc::as_ptr(&kept) };
        let timeout = patience(timeout_ms);
        let held = match mode {
            0 => Held::Read(store.read_lock(object, timeout)?),
            1 => Held::Write(store.write_lock(object, timeout)?),
            other => return Err(Failure::invalid(format!("{other} is no terrace_lock_mode"))),
        };
        Ok(Self { held, object, _store: kept })
    }

    fn write(&mut self) -> Result<&mut WriteGuard<'static>, Failure> {
        match &mut self.held {
            Held::Write(guard) => Ok(guard),
            Held::Read(_) | Held::Nothing => Err(ObjectError::NotLocked(self.object).into()),
        }
    }

    fn get(&self, to: &mut [u8]) -> Result<usize, ObjectError> {
        match &self.held {
            Held::Read(guard) => guard.get(to),
            Held::Write(guard) => guard.get(to),
            Held::Nothing => Err(ObjectError::NotLocked(self.object)),
        }
    }

    /// Replaces the guard by the result of `to`, or restores it and returns the error.
    fn turn(
        &mut self,
        to: impl FnOnce(Held) -> Result<Held, (Held, ObjectError)>,
    ) -> Result<(), Failure> {
        match to(std::mem::replace(&mut self.held, Held::Nothing)) {
            Ok(held) => {
                self.held = held;
                Ok(())
            }
            Err((held, error)) => {
                self.held = held;
                Err(error.into())
            }
        }
    }
}

/// Locks an object and stores the lock in *out; mode is a terrace_lock_mode. Waits for at most
/// timeout_ms milliseconds while other locks conflict: with 0 it tries once, with UINT64_MAX it
/// waits forever, even for a lock that the caller holds.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_TIMEOUT; TERRACE_STATUS_INVALID for an invalid mode.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or points to space for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_lock(
    objects: *const Objects,
    object: u64,
    mode: u32,
    timeout_ms: u64,
    out: *mut *mut Lock,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place(out, "out")?, store(objects)?) };
        out.put_handle(Lock::new(store, id(object), mode, timeout_ms)?);
        Ok(())
    })
}

/// Releases a lock; NULL is allowed.
///
/// # Safety
/// The lock is NULL, or came from terrace_objects_lock and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_unlock(lock: *mut Lock) {
    let _ = attempt(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_handle(lock) });
        Ok(())
    });
}

/// Returns the id of the object; 0 for NULL.
///
/// # Safety
/// The lock is NULL, or came from terrace_objects_lock and was not released, and no other thread
/// uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_object(lock: *const Lock) -> u64 {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(lock, "lock") }?.object.to_bits())).unwrap_or(0)
}

/// Upgrades a read lock to a write lock as soon as it is the only lock, without releasing it in
/// between. Waits as terrace_objects_lock does.
///
/// On failure the read lock is kept: TERRACE_STATUS_CONFLICT if another reader is already waiting
/// to upgrade, TERRACE_STATUS_TIMEOUT, TERRACE_STATUS_NOT_LOCKED if it is not a read lock.
///
/// # Safety
/// As for terrace_lock_object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_upgrade(lock: *mut Lock, timeout_ms: u64) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let lock = unsafe { unique(lock, "lock") }?;
        let object = lock.object;
        lock.turn(|held| match held {
            Held::Read(guard) => match guard.upgrade(patience(timeout_ms)) {
                Ok(guard) => Ok(Held::Write(guard)),
                Err((guard, error)) => Err((Held::Read(guard), error)),
            },
            other => Err((other, ObjectError::NotLocked(object))),
        })
    })
}

/// Downgrades a write lock to a read lock without releasing it in between.
///
/// TERRACE_STATUS_NOT_LOCKED if it is not a write lock.
///
/// # Safety
/// As for terrace_lock_object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_downgrade(lock: *mut Lock) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let lock = unsafe { unique(lock, "lock") }?;
        let object = lock.object;
        lock.turn(|held| match held {
            Held::Write(guard) => Ok(Held::Read(guard.downgrade())),
            other => Err((other, ObjectError::NotLocked(object))),
        })
    })
}

/// Copies the locked object as terrace_objects_get does, without waiting.
///
/// TERRACE_STATUS_BUFFER; TERRACE_STATUS_NOT_LOCKED after terrace_lock_remove.
///
/// # Safety
/// As for terrace_lock_object; the buffer is NULL or as large as room says, len is NULL or points
/// to space for a length, and no other code uses either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_get(
    lock: *const Lock,
    buffer: *mut c_void,
    room: usize,
    len: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (lock, to, len) = unsafe {
            (shared(lock, "lock")?, self::buffer(buffer, room, "buffer")?, place_or_none(len))
        };
        tell(lock.get(to), len)
    })
}

/// Replaces the bytes of the object as terrace_objects_put does, without waiting.
///
/// TERRACE_STATUS_NOT_LOCKED if it is not a write lock; TERRACE_STATUS_LENGTH,
/// TERRACE_STATUS_READ_ONLY.
///
/// # Safety
/// As for terrace_lock_object; bytes is NULL or points to len bytes, which do not change during the
/// call and are not those of the object itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_put(
    lock: *mut Lock,
    bytes: *const c_void,
    len: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (lock, bytes) =
            unsafe { (unique(lock, "lock")?, values(bytes.cast::<u8>(), len, "bytes")?) };
        Ok(lock.write()?.put(bytes)?)
    })
}

/// Replaces the contents of the object as terrace_objects_replace does, without waiting.
///
/// TERRACE_STATUS_NOT_LOCKED if it is not a write lock; TERRACE_STATUS_NO_ROOM,
/// TERRACE_STATUS_PINNED, TERRACE_STATUS_READ_ONLY, TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_lock_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_replace(
    lock: *mut Lock,
    bytes: *const c_void,
    len: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (lock, bytes) =
            unsafe { (unique(lock, "lock")?, values(bytes.cast::<u8>(), len, "bytes")?) };
        Ok(lock.write()?.replace(bytes)?)
    })
}

/// Changes the length of the object as terrace_objects_resize does, without waiting.
///
/// Fails as terrace_lock_replace does.
///
/// # Safety
/// As for terrace_lock_object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_resize(lock: *mut Lock, len: usize) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { unique(lock, "lock") }?.write()?.resize(len)?))
}

/// Removes the object and releases its lock. The handle must still be passed to
/// terrace_objects_unlock, and has no other use.
///
/// TERRACE_STATUS_NOT_LOCKED if it is not a write lock; TERRACE_STATUS_PINNED,
/// TERRACE_STATUS_READ_ONLY.
///
/// # Safety
/// As for terrace_lock_object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_lock_remove(lock: *mut Lock) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let lock = unsafe { unique(lock, "lock") }?;
        let object = lock.object;
        lock.turn(|held| match held {
            Held::Write(guard) => match guard.remove() {
                Ok(()) => Ok(Held::Nothing),
                Err((guard, error)) => Err((Held::Write(guard), error)),
            },
            other => Err((other, ObjectError::NotLocked(object))),
        })
    })
}

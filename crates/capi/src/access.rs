//! Reading and changing single objects.

use std::ffi::c_void;

use terrace_objects::ObjectError;

use crate::arguments::{ResultSlot, buffer, place, place_or_none, values};
use crate::status::{Failure, Status, status};
use crate::store::{Objects, id, store};

/// Stores the length of the object that was read in `len`, even if the buffer was too small for
/// it, and returns the error of the read, if there is one.
pub(crate) fn tell(
    read: Result<usize, ObjectError>,
    len: Option<ResultSlot<usize>>,
) -> Result<(), Failure> {
    let has = match &read {
        Ok(has) | Err(ObjectError::Buffer { has, .. }) => Some(*has),
        Err(_) => None,
    };
    if let (Some(has), Some(len)) = (has, len) {
        len.put(has);
    }
    read?;
    Ok(())
}

/// Copies an object to a buffer of room bytes, and stores its length in *len, which may be NULL.
/// Waits while the object is locked for writing.
///
/// TERRACE_STATUS_BUFFER if the object has more than room bytes: nothing is copied, and *len is its
/// length nevertheless. The buffer may be NULL if room is 0. TERRACE_STATUS_NOT_FOUND,
/// TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; the buffer is NULL or as large as room says, len is
/// NULL or points to space for a length, and no other code uses either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_get(
    objects: *const Objects,
    object: u64,
    buffer: *mut c_void,
    room: usize,
    len: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (store, to, len) =
            unsafe { (store(objects)?, self::buffer(buffer, room, "buffer")?, place_or_none(len)) };
        tell(store.get(id(object), to), len)
    })
}

/// Copies len bytes of an object, from the offset on; otherwise as terrace_objects_get.
///
/// TERRACE_STATUS_LENGTH if the object ends before the last of them.
///
/// # Safety
/// As for terrace_objects_get; the buffer is NULL or has room for len bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_read_at(
    objects: *const Objects,
    object: u64,
    offset: usize,
    buffer: *mut c_void,
    len: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (store, to) = unsafe { (store(objects)?, self::buffer(buffer, len, "buffer")?) };
        Ok(store.read_at(id(object), offset, to)?)
    })
}

/// Replaces the bytes of an object by the same number of bytes. Waits while the object is locked.
///
/// TERRACE_STATUS_LENGTH if the object has more or fewer bytes; TERRACE_STATUS_NOT_FOUND,
/// TERRACE_STATUS_READ_ONLY, TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; bytes is NULL or points to len bytes, which do not
/// change during the call and are not those of the object itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_put(
    objects: *const Objects,
    object: u64,
    bytes: *const c_void,
    len: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (store, bytes) =
            unsafe { (store(objects)?, values(bytes.cast::<u8>(), len, "bytes")?) };
        Ok(store.put(id(object), bytes)?)
    })
}

/// Replaces len bytes of an object, from the offset on; otherwise as terrace_objects_put.
///
/// TERRACE_STATUS_LENGTH if the object ends before the last of them.
///
/// # Safety
/// As for terrace_objects_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_write_at(
    objects: *const Objects,
    object: u64,
    offset: usize,
    bytes: *const c_void,
    len: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (store, bytes) =
            unsafe { (store(objects)?, values(bytes.cast::<u8>(), len, "bytes")?) };
        Ok(store.write_at(id(object), offset, bytes)?)
    })
}

/// Replaces the contents of an object by len bytes, more or fewer than before, atomically. Waits
/// while the object is locked. bytes may be NULL if len is 0.
///
/// TERRACE_STATUS_PINNED if the length of a pinned object would change; TERRACE_STATUS_NO_ROOM;
/// TERRACE_STATUS_INVALID for more than 1 TiB; TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_READ_ONLY,
/// TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// As for terrace_objects_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_replace(
    objects: *const Objects,
    object: u64,
    bytes: *const c_void,
    len: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (store, bytes) =
            unsafe { (store(objects)?, values(bytes.cast::<u8>(), len, "bytes")?) };
        Ok(store.replace(id(object), bytes)?)
    })
}

/// Changes the length of an object. The bytes within both lengths are kept, additional bytes are
/// zero.
///
/// Waits and fails as terrace_objects_replace does.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_resize(
    objects: *const Objects,
    object: u64,
    len: usize,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.resize(id(object), len)?))
}

/// Stores the length of an object in *len. Does not wait.
///
/// TERRACE_STATUS_NOT_FOUND.
///
/// # Safety
/// As for terrace_objects_resize; len is NULL or points to space for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_size(
    objects: *const Objects,
    object: u64,
    len: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (len, store) = unsafe { (place(len, "len")?, store(objects)?) };
        len.put(store.size(id(object))?);
        Ok(())
    })
}

/// Stores in *out true if an object is read-only, false otherwise. Does not wait.
///
/// TERRACE_STATUS_NOT_FOUND.
///
/// # Safety
/// As for terrace_objects_resize; out is NULL or points to space for a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_is_read_only(
    objects: *const Objects,
    object: u64,
    out: *mut bool,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place(out, "out")?, store(objects)?) };
        out.put(store.is_read_only(id(object))?);
        Ok(())
    })
}

/// Makes an object read-only, or writable again. A read-only object cannot be written, resized or
/// removed. Waits while the object is locked.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_TIMEOUT, TERRACE_STATUS_NO_ROOM.
///
/// # Safety
/// As for terrace_objects_resize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_set_read_only(
    objects: *const Objects,
    object: u64,
    read_only: bool,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.set_read_only(id(object), read_only)?))
}

/// Pins an object in place, and stores its address in *data and its length in *len, which may be
/// NULL. The object is not removed, resized or moved until terrace_objects_unpin was called as
/// often. Operations on it continue as on other objects, without waiting for the pin.
///
/// The bytes may be read and written at this address. Operations of other threads may change them
/// meanwhile unless the object is locked, and a reader of the object may get a mix of old and new
/// bytes while they are written. The address is a multiple of 64.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_NO_ROOM.
///
/// # Safety
/// As for terrace_objects_resize; data is NULL or points to space for a pointer, len is NULL or
/// points to space for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_pin(
    objects: *const Objects,
    object: u64,
    data: *mut *mut c_void,
    len: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (data, len, store) =
            unsafe { (place(data, "data")?, place_or_none(len), store(objects)?) };
        let (at, has) = store.pin_raw(id(object))?;
        data.put(at.cast());
        if let Some(len) = len {
            len.put(has);
        }
        Ok(())
    })
}

/// Releases a pin, on any thread.
///
/// TERRACE_STATUS_NOT_PINNED if the object has no pin.
///
/// # Safety
/// As for terrace_objects_resize; the caller that releases the last pin does not use the address
/// any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_unpin(objects: *const Objects, object: u64) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.unpin(id(object))?))
}

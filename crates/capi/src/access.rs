//! Reading and changing single objects.

use std::ffi::c_void;

use terrace_objects::ObjectError;

use crate::arguments::{Place, buffer, place, place_or_none, values};
use crate::status::{Failure, Status, status};
use crate::store::{Objects, id, store};

/// Tells how many bytes an object has, also where the buffer had too little room for them.
pub(crate) fn tell(
    read: Result<usize, ObjectError>,
    len: Option<Place<usize>>,
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

/// Copies an object to a buffer that has so much room, and gives its length to *len, which may be
/// NULL. It waits while somebody has locked the object for writing.
///
/// TERRACE_STATUS_BUFFER when the object has more bytes than there is room for: nothing is copied,
/// and *len is its length nevertheless. The buffer may be NULL without room.
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; the buffer is NULL or has so much room, len is NULL
/// or leads to room for a length, and nobody else uses either.
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

/// Copies the bytes of an object from the offset on, as many as len says; otherwise as
/// terrace_objects_get.
///
/// TERRACE_STATUS_LENGTH when the object ends before.
///
/// # Safety
/// As for terrace_objects_get; the buffer is NULL or has room for so many bytes.
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

/// Replaces the bytes of an object, which are as many as those given. It waits while somebody has
/// locked the object.
///
/// TERRACE_STATUS_LENGTH when the object has more or fewer; TERRACE_STATUS_NOT_FOUND,
/// TERRACE_STATUS_READ_ONLY, TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; the bytes are NULL, or as many as len says, do not
/// change during the call, and are not those of the object itself.
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

/// Replaces bytes of an object from the offset on; otherwise as terrace_objects_put.
///
/// TERRACE_STATUS_LENGTH when the object ends before the last of them.
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

/// Gives an object other bytes, more or fewer, in one step. It waits while somebody has locked the
/// object. bytes may be NULL where len is 0.
///
/// TERRACE_STATUS_PINNED when the length of a pinned object would change; TERRACE_STATUS_NO_ROOM;
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

/// Changes the length of an object. What fits of it is kept, what comes to it is zero.
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

/// Gives the length of an object to *len. Nobody waits.
///
/// TERRACE_STATUS_NOT_FOUND.
///
/// # Safety
/// As for terrace_objects_resize; len is NULL or leads to room for a length.
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

/// Gives to *out whether an object may only be read. Nobody waits.
///
/// TERRACE_STATUS_NOT_FOUND.
///
/// # Safety
/// As for terrace_objects_resize; out is NULL or leads to room for a bool.
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

/// Says whether an object may only be read from now on: it is then neither written to, nor resized,
/// nor removed, until somebody says that it may be. It waits while somebody has locked the object.
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

/// Keeps an object where it is, and gives its address to *data and its length to *len, which may be
/// NULL. It is neither removed nor resized, and does not move, until terrace_objects_unpin was
/// called as often. Operations on it go on as on others, and nobody waits.
///
/// The bytes may be read and written there. Operations of other threads change them meanwhile
/// unless the object is locked, and who reads the object while they are written may see some of
/// each. The address is a multiple of 64.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_NO_ROOM.
///
/// # Safety
/// As for terrace_objects_resize; data is NULL or leads to room for a pointer, len is NULL or leads
/// to room for a length.
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

/// Gives a pin back, on any thread.
///
/// TERRACE_STATUS_NOT_PINNED when the object has none.
///
/// # Safety
/// As for terrace_objects_resize; whoever gives the last pin back has no use for the address any
/// more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_unpin(objects: *const Objects, object: u64) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.unpin(id(object))?))
}

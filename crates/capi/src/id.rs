//! Creating and removing objects, and enumerating their ids.

use std::ffi::c_void;

use terrace_objects::{ObjectId, ObjectStore};

use crate::arguments::{place, places, values};
use crate::batch::Bytes;
use crate::status::{Failure, Status, attempt, status};
use crate::store::{Objects, id, store};

/// Creates an object of len zero bytes, and stores its id in *out.
///
/// TERRACE_STATUS_NO_ROOM if memory, budget or ids are exhausted; TERRACE_STATUS_INVALID for more
/// than 1 TiB.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or points to space for an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_create(
    objects: *const Objects,
    len: usize,
    out: *mut u64,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place(out, "out")?, store(objects)?) };
        out.put(store.create(len)?.to_bits());
        Ok(())
    })
}

/// Creates an object from len bytes, and stores its id in *out. bytes may be NULL if len is 0.
///
/// Fails as terrace_objects_create does.
///
/// # Safety
/// As for terrace_objects_create; bytes is NULL or points to len bytes, which do not change during
/// the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_create_with(
    objects: *const Objects,
    bytes: *const c_void,
    len: usize,
    out: *mut u64,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (out, store, bytes) = unsafe {
            (place(out, "out")?, store(objects)?, values(bytes.cast::<u8>(), len, "bytes")?)
        };
        out.put(store.create_with(bytes)?.to_bits());
        Ok(())
    })
}

/// Creates count objects with the given contents and consecutive ids, all or none, and stores the
/// first id in *out.
///
/// Fails as terrace_objects_create does; TERRACE_STATUS_INVALID if count is 0.
///
/// # Safety
/// As for terrace_objects_create; contents is NULL or points to count structures, each of which
/// points to as many bytes as it says. None of that changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_create_consecutive(
    objects: *const Objects,
    contents: *const Bytes,
    count: usize,
    out: *mut u64,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (out, store, contents) =
            unsafe { (place(out, "out")?, store(objects)?, values(contents, count, "contents")?) };
        some(count)?;
        let mut all: Vec<&[u8]> = Vec::new();
        if all.try_reserve_exact(count).is_err() {
            return Err(Failure::no_room(format!("no memory for a list of {count} objects")));
        }
        for bytes in contents {
            // SAFETY: the caller's promise.
            all.push(unsafe { bytes.get() }?);
        }
        out.put(store.create_consecutive(&all)?.to_bits());
        Ok(())
    })
}

/// Fails for 0 consecutive ids, which have no first one.
fn some(count: usize) -> Result<(), Failure> {
    if count == 0 { Err(Failure::invalid("consecutive ids of no objects")) } else { Ok(()) }
}

/// Reserves an id without an object, and stores it in *out: terrace_objects_create_reserved creates
/// its object, and terrace_objects_release releases the id.
///
/// TERRACE_STATUS_NO_ROOM if ids, or the budget for the table of objects, are exhausted.
///
/// # Safety
/// As for terrace_objects_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_reserve(objects: *const Objects, out: *mut u64) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place(out, "out")?, store(objects)?) };
        out.put(store.reserve()?.to_bits());
        Ok(())
    })
}

/// Reserves count consecutive ids, and stores the first in *out; otherwise as
/// terrace_objects_reserve.
///
/// TERRACE_STATUS_INVALID if count is 0.
///
/// # Safety
/// As for terrace_objects_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_reserve_consecutive(
    objects: *const Objects,
    count: usize,
    out: *mut u64,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place(out, "out")?, store(objects)?) };
        some(count)?;
        out.put(store.reserve_consecutive(terrace_sys::size::to_u64(count))?.to_bits());
        Ok(())
    })
}

/// Releases a reserved id.
///
/// TERRACE_STATUS_NOT_RESERVED if the id is not reserved, or has its object.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_release(objects: *const Objects, object: u64) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.release(id(object))?))
}

/// Creates an object from len bytes with a reserved id, or with an id of another node that no
/// object has here: the way to import objects of other nodes. bytes may be NULL if len is 0.
///
/// TERRACE_STATUS_NOT_RESERVED for any other id; otherwise fails as terrace_objects_create does.
///
/// # Safety
/// As for terrace_objects_release; bytes is NULL or points to len bytes, which do not change during
/// the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_create_reserved(
    objects: *const Objects,
    object: u64,
    bytes: *const c_void,
    len: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (store, bytes) =
            unsafe { (store(objects)?, values(bytes.cast::<u8>(), len, "bytes")?) };
        Ok(store.create_reserved(id(object), bytes)?)
    })
}

/// Removes an object. Its id may be given to another object at once.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_PINNED, TERRACE_STATUS_READ_ONLY;
/// TERRACE_STATUS_TIMEOUT if the object stays locked.
///
/// # Safety
/// As for terrace_objects_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_remove(objects: *const Objects, object: u64) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { store(objects) }?.remove(id(object))?))
}

/// Returns true if an object has this id. Does not wait. False for a store that is NULL.
///
/// # Safety
/// As for terrace_objects_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_exists(objects: *const Objects, object: u64) -> bool {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { store(objects) }?.exists(id(object)))).unwrap_or(false)
}

/// Number of ids requested at a time.
const IDS: usize = 4096;

/// Iterates over the ids greater than `last`, in order, in requests of `piece` ids.
fn ids_after(store: &ObjectStore, last: u64, piece: usize) -> impl Iterator<Item = ObjectId> {
    let mut last = Some(id(last));
    let pieces = std::iter::from_fn(move || {
        let found = store.ids_after(last?, piece);
        last = found.last().copied();
        last.map(|_| found)
    });
    pieces.flatten()
}

/// Stores the ids of objects that are greater than the id after in ids, in ascending order and at
/// most max, and their number in *count: fewer than max if there are no others. Begin with 0, which
/// no object has, and continue with the last id.
///
/// The ids are of objects that existed when they were read: objects that are created or removed
/// meanwhile may be among them or not.
///
/// # Safety
/// As for terrace_objects_release; ids is NULL or points to space for max ids, count is NULL or
/// points to space for a number, and no other code uses either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_ids(
    objects: *const Objects,
    after: u64,
    ids: *mut u64,
    max: usize,
    count: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (count, store, mut ids) =
            unsafe { (place(count, "count")?, store(objects)?, places(ids, max, "ids")?) };
        let mut given = 0;
        for id in ids_after(store, after, IDS.min(max)).take(max) {
            ids.put(given, id.to_bits());
            given += 1;
        }
        count.put(given);
        Ok(())
    })
}

/// Range of consecutive ids of objects.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IdRange {
    /// First id.
    pub first: u64,
    /// Last id.
    pub last: u64,
}

impl IdRange {
    fn goes_on_with(&self, next: u64) -> bool {
        next - 1 == self.last && id(next).node() == id(self.last).node()
    }
}

/// Stores the ids of objects in ranges, as few as possible and in ascending order, otherwise as
/// terrace_objects_ids stores them one by one. Continue with the last id of the last range.
///
/// # Safety
/// As for terrace_objects_ids; ranges is NULL or points to space for max ranges.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_id_ranges(
    objects: *const Objects,
    after: u64,
    ranges: *mut IdRange,
    max: usize,
    count: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (count, store, mut ranges) =
            unsafe { (place(count, "count")?, store(objects)?, places(ranges, max, "ranges")?) };
        let mut given = 0;
        let mut range: Option<IdRange> = None;
        for id in ids_after(store, after, IDS) {
            let id = id.to_bits();
            match &mut range {
                Some(range) if range.goes_on_with(id) => range.last = id,
                Some(_) if given + 1 == max => break,
                None if max == 0 => break,
                _ => {
                    if let Some(range) = range.replace(IdRange { first: id, last: id }) {
                        ranges.put(given, range);
                        given += 1;
                    }
                }
            }
        }
        if let Some(range) = range {
            ranges.put(given, range);
            given += 1;
        }
        count.put(given);
        Ok(())
    })
}

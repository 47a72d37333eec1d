//! Operations on many objects at once.

use std::cell::RefCell;
use std::ffi::c_void;

use terrace_objects::{Batch, ObjectError, ObjectId, ObjectStore};

use crate::arguments::{self, Places, place_or_none, places, values};
use crate::status::{self, Failure, Status, status};
use crate::store::{Objects, id, store};

/// Bytes that a call reads; data may be NULL if len is 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Bytes {
    /// The first byte.
    pub data: *const c_void,
    /// Number of bytes.
    pub len: usize,
}

/// Position of an object that terrace_objects_get_many has copied.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Part {
    /// Offset in the buffer; 0 if the object was not copied.
    pub offset: usize,
    /// Length in bytes, even if there was no room for them; 0 if the object was not found.
    pub len: usize,
    /// TERRACE_STATUS_OK, or the status that terrace_objects_get would return for it.
    pub status: Status,
}

impl Bytes {
    /// # Safety
    /// `data` is NULL, or leads to `len` bytes that do not change while the result is used.
    pub(crate) unsafe fn get<'a>(&self) -> Result<&'a [u8], Failure> {
        // SAFETY: the caller's promise.
        unsafe { values(self.data.cast(), self.len, "data") }
    }
}

/// Number of objects read or changed at a time: as many as the store prefetches.
const CHUNK: usize = 32;

/// Maximum bytes of a batch whose memory the thread keeps for its next batch.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: RefCell<Batch> = RefCell::new(Batch::new());
}

/// Runs `work` on this thread's batch; `work` returns the maximum bytes that the batch held. The
/// thread keeps the batch if these are at most `KEPT_BYTES_MAX`.
fn with_batch(work: impl FnOnce(&mut Batch) -> usize) {
    // An exiting thread has no batch any more.
    let mut batch = KEPT.try_with(RefCell::take).unwrap_or_default();
    if work(&mut batch) <= KEPT_BYTES_MAX {
        let _ = KEPT.try_with(|kept| kept.replace(batch));
    }
}

/// Bytes of several objects, packed into a buffer as long as they fit.
struct Packed<'a> {
    buffer: &'a mut [u8],
    used: usize,
    /// Bytes of all objects that were found, including those that did not fit.
    needed: usize,
    /// Number of objects that did not fit.
    left_out: usize,
    first: Option<Failure>,
}

impl Packed<'_> {
    /// Reads objects, and passes the position of each to `put`; returns the bytes of those found.
    fn read(
        &mut self,
        store: &ObjectStore,
        ids: &[ObjectId],
        batch: &mut Batch,
        mut put: impl FnMut(Part),
    ) -> usize {
        let before = self.needed;
        store.get_many(ids, batch);
        for read in batch.iter() {
            put(match read {
                Ok(bytes) => self.pack(bytes),
                Err(error) => {
                    self.first.get_or_insert_with(|| Failure::of_object(error));
                    Part { offset: 0, len: 0, status: status::object(error) }
                }
            });
        }
        self.needed - before
    }

    fn pack(&mut self, bytes: &[u8]) -> Part {
        let (offset, len) = (self.used, bytes.len());
        self.needed = self.needed.saturating_add(len);
        let Some(to) = self.buffer.get_mut(offset..).and_then(|rest| rest.get_mut(..len)) else {
            self.left_out += 1;
            return Part { offset: 0, len, status: Status::Buffer };
        };
        to.copy_from_slice(bytes);
        self.used += len;
        Part { offset, len, status: Status::Ok }
    }

    fn end(self) -> Result<(), Failure> {
        if self.left_out > 0 {
            let (needed, room, left_out) = (self.needed, self.buffer.len(), self.left_out);
            return Err(Failure::buffer(format!(
                "objects of {needed} bytes, and the buffer has room for {room}: {left_out} of them \
                 are left out"
            )));
        }
        self.first.map_or(Ok(()), Err)
    }
}

/// Copies objects to a buffer of room bytes, one after the other, and stores the position of each
/// in parts, and the bytes of all objects that were found in *needed, which may be NULL. Each is
/// read by itself, as by terrace_objects_get, but their memory is prefetched: a read does not wait
/// for the one before.
///
/// TERRACE_STATUS_BUFFER if some of them did not fit; these have this status, too, the others are
/// copied, and a buffer of *needed bytes has room for all. Otherwise the status of the first that
/// could not be read. parts and *needed are written in each of these cases, but not with
/// TERRACE_STATUS_INVALID.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; ids is NULL or points to count ids, the buffer is
/// NULL or as large as room says, parts is NULL or points to space for count parts, needed is NULL
/// or points to space for a number, and no other code uses any of them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_get_many(
    objects: *const Objects,
    ids: *const u64,
    count: usize,
    buffer: *mut c_void,
    room: usize,
    parts: *mut Part,
    needed: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (store, ids, buffer) = unsafe {
            (store(objects)?, ids_at(ids, count)?, arguments::buffer(buffer, room, "buffer")?)
        };
        // SAFETY: the caller's promise, for both.
        let (mut parts, needed) =
            unsafe { (places(parts, count, "parts")?, place_or_none(needed)) };
        let mut packed = Packed { buffer, used: 0, needed: 0, left_out: 0, first: None };
        let mut n = 0;
        with_batch(|batch| {
            let chunks = ids.chunks(CHUNK).map(|ids| {
                packed.read(store, ids, batch, |part| {
                    parts.put(n, part);
                    n += 1;
                })
            });
            chunks.max().unwrap_or(0)
        });
        if let Some(needed) = needed {
            needed.put(packed.needed);
        }
        packed.end()
    })
}

/// Returns the array of ids at an address.
///
/// # Safety
/// As for [`values`].
unsafe fn ids_at<'a>(ids: *const u64, count: usize) -> Result<&'a [ObjectId], Failure> {
    // SAFETY: the caller's promise; an id has the layout of its number.
    unsafe { values(ids.cast::<ObjectId>(), count, "ids") }
}

/// Results of a batch: an optional status for each object, and the first failure.
struct Outcome {
    statuses: Option<Places<Status>>,
    seen: usize,
    first: Option<Failure>,
}

impl Outcome {
    /// # Safety
    /// `statuses` is NULL, or leads to room for `count` of them that no other code uses while the
    /// outcome lives.
    unsafe fn new(statuses: *mut Status, count: usize) -> Result<Self, Failure> {
        let asked = !statuses.is_null();
        // SAFETY: the caller's promise.
        let statuses = asked.then(|| unsafe { places(statuses, count, "statuses") }).transpose()?;
        Ok(Self { statuses, seen: 0, first: None })
    }

    fn add(&mut self, results: &[Result<(), ObjectError>]) {
        for result in results {
            let status = result.as_ref().err().map_or(Status::Ok, status::object);
            if let Some(statuses) = &mut self.statuses {
                statuses.put(self.seen, status);
            }
            if let Err(error) = result {
                self.first.get_or_insert_with(|| Failure::of_object(error));
            }
            self.seen += 1;
        }
    }

    fn end(self) -> Result<(), Failure> {
        self.first.map_or(Ok(()), Err)
    }
}

/// Replaces the bytes of count objects, each as terrace_objects_put does, and stores the status of
/// each in statuses, which may be NULL.
///
/// Returns the status of the first that failed; the others are written all the same. With
/// TERRACE_STATUS_INVALID no object is written, and statuses is not changed.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; ids is NULL or points to count ids, contents is NULL
/// or points to count structures, each of which points to as many bytes as it says, statuses is
/// NULL or points to space for count statuses. No other code changes or uses any of them meanwhile,
/// and the bytes are not those of objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_put_many(
    objects: *const Objects,
    ids: *const u64,
    contents: *const Bytes,
    count: usize,
    statuses: *mut Status,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (store, ids, contents) =
            unsafe { (store(objects)?, ids_at(ids, count)?, values(contents, count, "contents")?) };
        // SAFETY: the caller's promise.
        let mut outcome = unsafe { Outcome::new(statuses, count) }?;
        for bytes in contents {
            // SAFETY: the caller's promise.
            unsafe { bytes.get() }?;
        }
        for (ids, contents) in ids.chunks(CHUNK).zip(contents.chunks(CHUNK)) {
            let mut pairs = [(id(0), &[][..]); CHUNK];
            for (pair, (id, bytes)) in pairs.iter_mut().zip(ids.iter().zip(contents)) {
                // SAFETY: the caller's promise.
                *pair = (*id, unsafe { bytes.get() }?);
            }
            outcome.add(&store.put_many(&pairs[..ids.len()]));
        }
        outcome.end()
    })
}

/// Removes count objects, each as terrace_objects_remove does, and stores the status of each in
/// statuses, which may be NULL.
///
/// Returns the same as terrace_objects_put_many.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; ids is NULL or points to count ids, statuses is NULL
/// or points to space for count statuses. No other code changes or uses any of them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_remove_many(
    objects: *const Objects,
    ids: *const u64,
    count: usize,
    statuses: *mut Status,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (store, ids, mut outcome) =
            unsafe { (store(objects)?, ids_at(ids, count)?, Outcome::new(statuses, count)?) };
        for ids in ids.chunks(CHUNK) {
            outcome.add(&store.remove_many(ids));
        }
        outcome.end()
    })
}

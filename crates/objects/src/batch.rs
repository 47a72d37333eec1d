//! Operations on many objects at once.
//!
//! A single read misses the caches twice: first for the group, then for the object. Reads of a
//! batch prefetch all groups, then all objects, and then copy what has arrived meanwhile.

use std::ops::Range;

use crate::bytes;
use crate::durable::log::Position;
use crate::error::ObjectError;
use crate::groups::group::Found;
use crate::groups::table::slot_of;
use crate::id::ObjectId;
use crate::objects::By;
use crate::store::ObjectStore;

/// Objects that are prefetched at a time: as many as the processor has outstanding requests.
const AHEAD: usize = 32;

/// Copies of the objects of a batch. Its memory is kept from one batch to the next.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    used: usize,
    results: Vec<Result<Range<usize>, ObjectError>>,
}

impl Batch {
    /// Makes an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of objects requested, found or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// True if no objects were requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Returns the bytes of the `n`th object requested, counted from 0, or the error of its read.
    ///
    /// # Errors
    /// As [`ObjectStore::get`] for that object.
    ///
    /// # Panics
    /// If fewer objects were requested.
    pub fn get(&self, n: usize) -> Result<&[u8], &ObjectError> {
        self.results[n].as_ref().map(|range| &self.bytes[range.clone()])
    }

    /// Returns all objects in the order of the request.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<&[u8], &ObjectError>> {
        (0..self.len()).map(|n| self.get(n))
    }

    /// Returns copies of all objects in the order of the request, and clears the batch.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Result<Vec<u8>, ObjectError>> {
        let bytes = &self.bytes;
        self.results.drain(..).map(|result| result.map(|range| bytes[range].to_vec()))
    }

    fn clear(&mut self) {
        self.used = 0;
        self.results.clear();
    }

    /// Appends a copy of an object if the buffer has room for it. Returns the range of the copy in
    /// the buffer, or the length of an object that does not fit.
    #[inline]
    fn add(&mut self, found: Found) -> Result<Range<usize>, usize> {
        let Some(to) = self.bytes.get_mut(self.used..self.used + found.len) else {
            return Err(found.len);
        };
        // SAFETY: `find` checked that the object lies in the slabs, which are mapped as long as the
        // store; concurrent writes to them go through `bytes`.
        unsafe { bytes::read(found.at, to) };
        Ok(self.used..self.used + found.len)
    }
}

impl ObjectStore {
    /// Copies the objects with these ids to `batch`, in the order of `ids` and in place of its
    /// former results. Each is read by itself: changes made meanwhile may be visible in one object
    /// and not in another.
    pub fn get_many(&self, ids: &[ObjectId], batch: &mut Batch) {
        batch.clear();
        batch.results.reserve(ids.len());
        for ids in ids.chunks(AHEAD) {
            self.ask_ahead(ids);
            for id in ids {
                let result = self.get_into(*id, batch);
                if let Ok(range) = &result {
                    batch.used = range.end;
                }
                batch.results.push(result);
            }
        }
    }

    #[inline]
    fn get_into(&self, id: ObjectId, batch: &mut Batch) -> Result<Range<usize>, ObjectError> {
        loop {
            match self.objects().look(id, By::Anybody, |found| batch.add(found))? {
                Ok(range) => return Ok(range),
                Err(more) => {
                    let len = batch.used + more;
                    batch.bytes.resize(len.next_power_of_two().max(4096), 0);
                }
            }
        }
    }

    /// Replaces the bytes of objects, each as [`ObjectStore::put`] does, but waits for the log once
    /// for all of them. Returns the result of each, in the order of `objects`.
    pub fn put_many(&self, objects: &[(ObjectId, &[u8])]) -> Vec<Result<(), ObjectError>> {
        let mut results = Vec::with_capacity(objects.len());
        for objects in objects.chunks(AHEAD) {
            let mut ids = [ObjectId::from_bits(0); AHEAD];
            ids.iter_mut().zip(objects).for_each(|(place, (id, _))| *place = *id);
            self.ask_ahead(&ids[..objects.len()]);
            results.extend(objects.iter().map(|(id, bytes)| self.put_in_batch(*id, bytes)));
        }
        self.commit_batch(results)
    }

    fn put_in_batch(&self, id: ObjectId, bytes: &[u8]) -> Result<Position, ObjectError> {
        // Without a log there is a faster path.
        match self.objects().journal().log() {
            None => self.put(id, bytes).map(|()| 0),
            Some(_) => self.objects().put_unwaited(By::Anybody, id, bytes),
        }
    }

    /// Waits for the log once for all changes of a batch. Takes the log position of each change, or
    /// its error, and returns the result of each.
    fn commit_batch(
        &self,
        changes: Vec<Result<Position, ObjectError>>,
    ) -> Vec<Result<(), ObjectError>> {
        let journal = self.objects().journal();
        let last = changes.iter().flatten().max().copied();
        let sound = last.is_none_or(|last| journal.commit(last).is_ok());
        let result = |change: Result<Position, ObjectError>| match change {
            Ok(position) if !sound => journal.commit(position),
            change => change.map(|_| ()),
        };
        changes.into_iter().map(result).collect()
    }

    /// Removes objects, each as [`ObjectStore::remove`] does, but waits for the log once for all of
    /// them. Returns the result of each, in the order of `ids`.
    pub fn remove_many(&self, ids: &[ObjectId]) -> Vec<Result<(), ObjectError>> {
        let mut results = Vec::with_capacity(ids.len());
        for ids in ids.chunks(AHEAD) {
            self.ask_ahead(ids);
            results.extend(ids.iter().map(|id| self.objects().remove_unwaited(By::Anybody, *id)));
        }
        self.commit_batch(results)
    }

    /// Prefetches the groups of all `ids`, then the first cache lines of the objects.
    fn ask_ahead(&self, ids: &[ObjectId]) {
        let (table, slabs) = (self.objects().groups().table(), self.objects().groups().slabs());
        for id in ids {
            prefetch(table.address(table.group_of(*id)).cast());
        }
        for id in ids {
            let Some(group) = table.get(table.group_of(*id)) else { continue };
            let view = group.view();
            if !view.is_present(slot_of(*id)) {
                continue;
            }
            let start = slabs.address(view.word.run().start);
            let offset = view.word.kind().stride().map_or(0, |len| view.rank(slot_of(*id)) * len);
            prefetch(start.wrapping_add(offset));
        }
    }
}

/// Prefetches a cache line. Any address is allowed.
#[inline]
fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint; an address that is not mapped is ignored.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = at;
}

//! Changes of single objects.

use std::cell::Cell;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use terrace_sys::sync::lock;

use crate::bytes;
use crate::error::ObjectError;
use crate::group::{Far, Found, NEAR_BYTES_MAX};
use crate::group_edit::{self, Content};
use crate::id::ObjectId;
use crate::log::Position;
use crate::record::Change;
use crate::slabs::Run;
use crate::store::{By, Latched, OBJECT_BYTES_MAX, ObjectStore, part, place, signed};
use crate::table::slot_of;

impl ObjectStore {
    /// Replaces the bytes of an object by as many others. Waits while another thread has the object
    /// locked.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`]; [`ObjectError::Length`] when the object has another length;
    /// [`ObjectError::ReadOnly`]; [`ObjectError::LockTimeout`]; [`ObjectError::Log`] of a store
    /// with a log, as for all changes.
    #[inline]
    pub fn put(&self, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        if self.log.is_none()
            && let Some(group) = self.table.plain(id)
            && group.latch.try_exclusive()
        {
            let _latched = Latched { group, lot: &self.lot };
            let view = group.view();
            if let Some((at, len)) = view.find_plainly(&self.slabs, slot_of(id))
                && len == from.len()
                && self.snapshot.turn().suits(view.word)
            {
                // SAFETY: as in `put_by`.
                unsafe { bytes::write(at.cast_mut(), from) };
                return Ok(());
            }
        }
        self.put_slowly(id, from)
    }

    #[cold]
    #[inline(never)]
    fn put_slowly(&self, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        self.put_by(By::Anybody, id, from)
    }

    pub(crate) fn put_by(&self, by: By, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        let position = self.put_unwaited(by, id, from)?;
        self.commit(position)
    }

    /// As `put_by`, without waiting for the log.
    pub(crate) fn put_unwaited(
        &self,
        by: By,
        id: ObjectId,
        from: &[u8],
    ) -> Result<Position, ObjectError> {
        self.change(id, by, |editor, slot| {
            self.is_loggable()?;
            let found = writable(id, editor.find(slot))?;
            if found.len != from.len() {
                let (has, given) = (found.len, from.len());
                return Err(ObjectError::Length { id, has, given }.into());
            }
            // SAFETY: the object has as many bytes, and the latch makes them this thread's.
            unsafe { bytes::write(found.at, from) };
            Ok(self.note(Change::Put { id, bytes: from }))
        })
    }

    /// Replaces bytes of an object from `offset` on.
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; [`ObjectError::Length`] when the range exceeds the object.
    pub fn write_at(&self, id: ObjectId, offset: usize, from: &[u8]) -> Result<(), ObjectError> {
        self.write_at_by(By::Anybody, id, offset, from)
    }

    pub(crate) fn write_at_by(
        &self,
        by: By,
        id: ObjectId,
        offset: usize,
        from: &[u8],
    ) -> Result<(), ObjectError> {
        let position = self.change(id, by, |editor, slot| {
            self.is_loggable()?;
            let found = writable(id, editor.find(slot))?;
            let to = part(id, found, offset, from.len())?;
            // SAFETY: the range lies in the object, and the latch makes it this thread's.
            unsafe { bytes::write(to, from) };
            Ok(self.note(Change::Write { id, offset, bytes: from }))
        })?;
        self.commit(position)
    }

    /// Replaces the bytes of an object by others of any number. All of it is one step: no reader
    /// sees the one length with the other bytes.
    ///
    /// # Errors
    /// As [`ObjectStore::put`], except for the length; [`ObjectError::Pinned`] when the length of a
    /// pinned object would change; [`ObjectError::OutOfMemory`], [`ObjectError::TooLong`].
    pub fn replace(&self, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        self.replace_by(By::Anybody, id, from)
    }

    pub(crate) fn replace_by(&self, by: By, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        // A failure to place the bytes is ignored here: the object may be missing or locked, or
        // need no room as its length does not change.
        self.is_here()?;
        let placed = self.place_ahead(Content::Bytes(from)).unwrap_or(Placed::none(self));
        self.reshape(by, id, &placed, |_| Content::Bytes(from))
    }

    /// Changes the length of an object. The bytes up to the shorter length are kept, added ones are
    /// zero.
    ///
    /// # Errors
    /// As [`ObjectStore::replace`].
    pub fn resize(&self, id: ObjectId, len: usize) -> Result<(), ObjectError> {
        self.resize_by(By::Anybody, id, len)
    }

    pub(crate) fn resize_by(&self, by: By, id: ObjectId, len: usize) -> Result<(), ObjectError> {
        self.reshape(by, id, &Placed::none(self), |now| Content::Resized { now, len })
    }

    fn reshape<'a>(
        &self,
        by: By,
        id: ObjectId,
        placed: &Placed<'_>,
        content: impl Fn(Found) -> Content<'a>,
    ) -> Result<(), ObjectError> {
        let position = self.change(id, by, |editor, slot| {
            self.is_loggable()?;
            let found = writable(id, editor.find(slot))?;
            let content = content(found);
            if content.len() > OBJECT_BYTES_MAX {
                return Err(ObjectError::TooLong(content.len()).into());
            }
            let movable = self.is_unpinned(id, editor.group.view(), slot);
            if content.len() == found.len && (placed.far.is_none() || movable.is_err()) {
                if let Content::Bytes(from) = content {
                    // SAFETY: as in `put_by`.
                    unsafe { bytes::write(found.at, from) };
                }
            } else {
                movable?;
                match placed.far {
                    Some(far) => editor.replace_by_far(slot, far).map(|()| placed.keep())?,
                    None => editor.replace(slot, content)?,
                }
                let grown = signed(content.len()) - signed(found.len);
                self.count().bytes.fetch_add(grown, Ordering::Relaxed);
            }
            Ok(self.note(content.change(id)))
        })?;
        self.commit(position)
    }

    /// Removes an object. Its id may name another object at once.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::Pinned`], [`ObjectError::ReadOnly`],
    /// [`ObjectError::LockTimeout`].
    pub fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.remove_by(By::Anybody, id)
    }

    pub(crate) fn remove_by(&self, by: By, id: ObjectId) -> Result<(), ObjectError> {
        let position = self.remove_unwaited(by, id)?;
        self.commit(position)
    }

    /// Removes an object without waiting for the log.
    pub(crate) fn remove_unwaited(&self, by: By, id: ObjectId) -> Result<Position, ObjectError> {
        self.change(id, by, |editor, slot| {
            self.is_loggable()?;
            let found = writable(id, editor.find(slot))?;
            self.is_unpinned(id, editor.group.view(), slot)?;
            editor.remove(slot);
            if by == By::Holder {
                self.forget(id, editor.group, slot);
            }
            self.end_id(self.group_of(id), editor.group, slot);
            self.list(self.group_of(id), editor.group);
            self.count_removed(found.len);
            Ok(self.note(Change::Remove { id }))
        })
    }

    pub(crate) fn count_removed(&self, len: usize) {
        self.count().objects.fetch_sub(1, Ordering::Relaxed);
        self.count().bytes.fetch_sub(signed(len), Ordering::Relaxed);
    }

    /// Makes an object read-only or writable. While it is read-only, it can neither be written to,
    /// nor resized, nor removed.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::LockTimeout`], [`ObjectError::OutOfMemory`].
    pub fn set_read_only(&self, id: ObjectId, read_only: bool) -> Result<(), ObjectError> {
        self.set_read_only_by(By::Anybody, id, read_only)
    }

    pub(crate) fn set_read_only_by(
        &self,
        by: By,
        id: ObjectId,
        read_only: bool,
    ) -> Result<(), ObjectError> {
        let position = self.change(id, by, |editor, slot| match editor.find(slot) {
            Some(found) if found.read_only != read_only => {
                self.is_loggable()?;
                editor.set_read_only(slot, read_only)?;
                Ok(self.note(Change::ReadOnly { id, read_only }))
            }
            _ => Ok(0),
        })?;
        self.commit(position)
    }
}

fn writable(id: ObjectId, found: Option<Found>) -> Result<Found, ObjectError> {
    let found = found.ok_or(ObjectError::NotFound(id))?;
    if found.read_only { Err(ObjectError::ReadOnly(id)) } else { Ok(found) }
}

/// Run of a long object, allocated and filled before anything is latched. Dropping this frees the
/// run, unless an object has taken it.
pub(crate) struct Placed<'a> {
    store: &'a ObjectStore,
    pub(crate) far: Option<Far>,
    /// Index of the store's list that has the run until an object does.
    list: usize,
    kept: Cell<bool>,
}

impl<'a> Placed<'a> {
    /// Returns a value without a run.
    pub(crate) fn none(store: &'a ObjectStore) -> Self {
        let list = place() % store.placed.len();
        Self { store, far: None, list, kept: Cell::new(false) }
    }

    /// Leaves the run to an object. Called under the latch of its group, or with the maker locked.
    pub(crate) fn keep(&self) {
        self.kept.set(true);
        let run = self.far.and_then(Far::run);
        run.into_iter().for_each(|run| self.list().retain(|other| *other != run));
    }

    fn list(&self) -> MutexGuard<'_, Vec<Run>> {
        lock(&self.store.placed[self.list])
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.far.and_then(Far::run).filter(|_| !self.kept.get()) {
            let mut list = self.list();
            list.retain(|other| *other != run);
            self.store.slabs.give(run);
        }
    }
}

impl ObjectStore {
    /// Allocates and fills the run of an object that is long enough to have one of its own, so that
    /// other threads wait neither for the copy nor for the memory.
    pub(crate) fn place_ahead(&self, content: Content<'_>) -> Result<Placed<'_>, ObjectError> {
        let mut placed = Placed::none(self);
        if content.len() <= NEAR_BYTES_MAX {
            return Ok(placed);
        }
        if content.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(content.len()));
        }
        let mut tries = 0;
        loop {
            let mut list = placed.list();
            let taken = group_edit::take(&self.slabs, place(), content.len());
            if let Ok(far) = taken {
                list.extend(far.run());
            }
            drop(list);
            match taken {
                Ok(far) => {
                    placed.far = Some(far);
                    // SAFETY: the run was just allocated for this content.
                    unsafe { group_edit::fill(&self.slabs, far, content) };
                    return Ok(placed);
                }
                Err(no_room) => self.make_room(no_room.0, &mut tries)?,
            }
        }
    }
}

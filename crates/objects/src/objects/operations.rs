//! Changes of single objects.

use super::placed::Placed;
use super::{By, Objects, part};
use crate::bytes;
use crate::config::OBJECT_BYTES_MAX;
use crate::durable::change::Change;
use crate::durable::log::Position;
use crate::error::ObjectError;
use crate::groups::content::Content;
use crate::groups::group::Found;
use crate::groups::table::slot_of;
use crate::id::ObjectId;
use crate::locks::record::Hold;

impl Objects {
    /// Replaces the bytes of an object by as many others, once no other thread has it locked.
    #[inline]
    pub(crate) fn put(&self, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        if self.journal.log().is_none()
            && let Some(group) = self.groups.table().plain(id)
            && let Some(_latched) = self.groups.try_latch(group)
        {
            let view = group.view();
            if let Some((at, len)) = view.find_plainly(self.groups.slabs(), slot_of(id))
                && len == from.len()
                && self.journal.needs_no_copy(&view)
            {
                // SAFETY: as in `put_unwaited`.
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

    /// As [`Objects::put`], without the fast path.
    pub(crate) fn put_by(&self, by: By, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        let position = self.put_unwaited(by, id, from)?;
        self.journal.commit(position)
    }

    /// As [`Objects::put_by`], without waiting for the log.
    pub(crate) fn put_unwaited(
        &self,
        by: By,
        id: ObjectId,
        from: &[u8],
    ) -> Result<Position, ObjectError> {
        self.change(id, by, |editor, slot| {
            self.journal.is_sound()?;
            let found = writable(id, editor.find(slot.index()))?;
            if found.len != from.len() {
                let (has, given) = (found.len, from.len());
                return Err(ObjectError::Length { id, has, given }.into());
            }
            // SAFETY: the object has as many bytes, and the latch makes them this thread's.
            unsafe { bytes::write(found.at, from) };
            Ok(self.journal.note(Change::Put { id, bytes: from }))
        })
    }

    /// Replaces bytes of an object from `offset` on.
    pub(crate) fn write_at(
        &self,
        by: By,
        id: ObjectId,
        offset: usize,
        from: &[u8],
    ) -> Result<(), ObjectError> {
        let position = self.change(id, by, |editor, slot| {
            self.journal.is_sound()?;
            let found = writable(id, editor.find(slot.index()))?;
            let to = part(id, found, offset, from.len())?;
            // SAFETY: the range lies in the object, and the latch makes it this thread's.
            unsafe { bytes::write(to, from) };
            Ok(self.journal.note(Change::Write { id, offset, bytes: from }))
        })?;
        self.journal.commit(position)
    }

    /// Replaces the bytes of an object by others of any number.
    pub(crate) fn replace(&self, by: By, id: ObjectId, from: &[u8]) -> Result<(), ObjectError> {
        // A failure to place the bytes is ignored here: the object may be missing or locked, or
        // need no room as its length does not change.
        self.journal.is_here()?;
        let placed = self.place_ahead(Content::Bytes(from)).unwrap_or(self.unplaced());
        self.reshape(by, id, &placed, |_| Content::Bytes(from))
    }

    /// Changes the length of an object.
    pub(crate) fn resize(&self, by: By, id: ObjectId, len: usize) -> Result<(), ObjectError> {
        self.reshape(by, id, &self.unplaced(), |now| Content::Resized { now, len })
    }

    fn unplaced(&self) -> Placed<'_> {
        self.placed.none(self.groups.slabs())
    }

    fn reshape<'a>(
        &self,
        by: By,
        id: ObjectId,
        placed: &Placed<'_>,
        content: impl Fn(Found) -> Content<'a>,
    ) -> Result<(), ObjectError> {
        let position = self.change(id, by, |editor, slot| {
            self.journal.is_sound()?;
            let found = writable(id, editor.find(slot.index()))?;
            let content = content(found);
            if content.len() > OBJECT_BYTES_MAX {
                return Err(ObjectError::TooLong(content.len()).into());
            }
            let movable = self.locks.is_unpinned(id, slot.group().view(), slot.index());
            if content.len() == found.len && (placed.far().is_none() || movable.is_err()) {
                if let Content::Bytes(from) = content {
                    // SAFETY: as in `put_unwaited`.
                    unsafe { bytes::write(found.at, from) };
                }
            } else {
                movable?;
                match placed.far() {
                    Some(far) => {
                        editor.replace_by_far(slot.index(), far).map(|()| placed.keep())?;
                    }
                    None => editor.replace(slot.index(), content)?,
                }
                self.groups.counts().resize(found.len, content.len());
            }
            Ok(self.journal.note(Change::of(id, content)))
        })?;
        self.journal.commit(position)
    }

    /// Removes an object. Its id may name another object at once.
    pub(crate) fn remove(&self, by: By, id: ObjectId) -> Result<(), ObjectError> {
        let position = self.remove_unwaited(by, id)?;
        self.journal.commit(position)
    }

    /// Removes an object without waiting for the log.
    pub(crate) fn remove_unwaited(&self, by: By, id: ObjectId) -> Result<Position, ObjectError> {
        self.change(id, by, |editor, slot| {
            self.journal.is_sound()?;
            let found = writable(id, editor.find(slot.index()))?;
            self.locks.is_unpinned(id, slot.group().view(), slot.index())?;
            editor.remove(slot.index());
            if by == By::Holder {
                self.locks.forget(id, slot.group(), slot.index());
            }
            self.groups.end_id(slot);
            self.groups.list(slot.number(), slot.group());
            self.groups.counts().remove(found.len);
            Ok(self.journal.note(Change::Remove { id }))
        })
    }

    /// Makes an object read-only or writable.
    pub(crate) fn set_read_only(
        &self,
        by: By,
        id: ObjectId,
        read_only: bool,
    ) -> Result<(), ObjectError> {
        let position = self.change(id, by, |editor, slot| match editor.find(slot.index()) {
            Some(found) if found.read_only != read_only => {
                self.journal.is_sound()?;
                editor.set_read_only(slot.index(), read_only)?;
                Ok(self.journal.note(Change::ReadOnly { id, read_only }))
            }
            _ => Ok(0),
        })?;
        self.journal.commit(position)
    }

    /// Moves an object to a run of its own and pins it there. Returns its address and length.
    pub(crate) fn pin(&self, id: ObjectId, hold: Hold) -> Result<(*mut u8, usize), ObjectError> {
        self.change(id, By::Holder, |editor, slot| {
            editor.move_out(slot.index())?;
            let found = editor.find(slot.index()).ok_or(ObjectError::NotFound(id))?;
            self.locks.pin(id, hold, slot.group(), slot.index());
            Ok((found.at, found.len))
        })
    }
}

fn writable(id: ObjectId, found: Option<Found>) -> Result<Found, ObjectError> {
    let found = found.ok_or(ObjectError::NotFound(id))?;
    if found.read_only { Err(ObjectError::ReadOnly(id)) } else { Ok(found) }
}

//! Redo of the changes in dumps and logs, in a store that no other thread uses yet.
//!
//! A log begins before the dump that it belongs to, so the store may already be in a later state
//! than the next change. The changes that led to that state follow in the log as well, which is
//! synced before the dump gets its name. So it is enough that redo is idempotent: every change sets
//! its result whatever the state before, and a change that does not fit the state is skipped.

use terrace_sys::size::to_u64;

use crate::bytes;
use crate::durable::change::Change;
use crate::error::ObjectError;
use crate::groups::Groups;
use crate::groups::content::Content;
use crate::groups::group::Latched;
use crate::groups::table::Slot;
use crate::id::ObjectId;
use crate::objects::{By, Objects};

/// Applies changes of a log, and contents of a dump, to a store.
#[derive(Clone, Copy)]
pub(crate) struct Redo<'a> {
    objects: &'a Objects,
    groups: &'a Groups,
}

impl<'a> Redo<'a> {
    pub(crate) fn new(objects: &'a Objects) -> Self {
        Self { objects, groups: objects.groups() }
    }

    /// Redoes a change of the log.
    pub(crate) fn redo(self, change: Change<'_>) -> Result<(), ObjectError> {
        let id = change.id();
        let slot = self.slot(id)?;
        match change {
            Change::Put { bytes, .. } => self.set(slot, Content::Bytes(bytes)),
            Change::Zeros { len, .. } => self.set(slot, Content::Zeros(len)),
            Change::Resize { len, .. } => self.resize(slot, len),
            Change::Write { offset, bytes, .. } => {
                self.write(slot, offset, bytes);
                Ok(())
            }
            Change::Remove { .. } => {
                self.remove(slot);
                Ok(())
            }
            Change::ReadOnly { read_only, .. } => {
                match self.objects.set_read_only(By::Anybody, id, read_only) {
                    Err(ObjectError::NotFound(_)) => Ok(()),
                    set => set,
                }
            }
            Change::Reserve { count, .. } => {
                let ids = id.to_bits()..id.to_bits().saturating_add(count);
                ids.into_iter().try_for_each(|id| self.reserve(ObjectId::from_bits(id)))
            }
            Change::Release { .. } => {
                let _latched = self.latch(slot);
                let view = slot.group().view();
                if view.reserved_slots() >> slot.index() & 1 != 0 {
                    self.groups.unreserve(slot, &view);
                    slot.make_current();
                    self.groups.end_id(slot);
                }
                Ok(())
            }
        }
    }

    /// Returns the slot of an id in a dump or log; the id counts as given out.
    fn slot(self, id: ObjectId) -> Result<Slot<'a>, ObjectError> {
        self.groups.for_load(self.groups.table().group_of(id))?;
        self.groups.find(id)
    }

    fn latch(self, slot: Slot<'a>) -> Latched<'a> {
        self.objects.latch(slot)
    }

    /// Sets the content of an object, which is created if it does not exist.
    pub(crate) fn set(self, slot: Slot<'a>, content: Content<'_>) -> Result<(), ObjectError> {
        let mut tries = 0;
        loop {
            let latched = self.latch(slot);
            let (editor, view) = (self.groups.editor(slot.group()), slot.group().view());
            let before = editor.find(slot.index());
            let done = match before {
                Some(found) if found.len == content.len() => {
                    // SAFETY: the object has as many bytes, and the latch makes them this thread's.
                    unsafe { content.overwrite(found.at) };
                    Ok(())
                }
                Some(_) => editor.replace(slot.index(), content),
                None => {
                    let inserted = editor.insert(slot.index(), content);
                    inserted.map(|()| self.groups.unreserve(slot, &view))
                }
            };
            if done.is_ok() {
                slot.make_current();
            }
            match (done, before) {
                (Ok(()), None) => self.groups.counts().add(content.len()),
                (Ok(()), Some(before)) => self.groups.counts().resize(before.len, content.len()),
                (Err(no_room), before) => {
                    drop(latched);
                    let made = self.objects.make_room(no_room.0, &mut tries);
                    let Some(found) = before.filter(|_| made.is_err()) else {
                        made?;
                        continue;
                    };
                    // The old object is removed to make room, as no other thread uses the store.
                    let _latched = self.latch(slot);
                    self.groups.editor(slot.group()).remove(slot.index());
                    self.groups.counts().remove(found.len);
                    tries = 0;
                    continue;
                }
            }
            return Ok(());
        }
    }

    fn resize(self, slot: Slot<'a>, len: usize) -> Result<(), ObjectError> {
        let latched = self.latch(slot);
        let editor = self.groups.editor(slot.group());
        let Some(now) = editor.find(slot.index()).filter(|now| now.len != len) else {
            return Ok(());
        };
        if editor.replace(slot.index(), Content::Resized { now, len }).is_ok() {
            self.groups.counts().resize(now.len, len);
            return Ok(());
        }
        let mut kept = Vec::new();
        let few = now.len.min(len);
        kept.try_reserve_exact(few).map_err(|_| self.groups.out_of_memory(to_u64(few)))?;
        kept.resize(few, 0);
        // SAFETY: the object has as many bytes, and the latch makes them this thread's.
        unsafe { bytes::read(now.at, &mut kept) };
        drop(latched);
        self.set(slot, Content::Zeros(len))?;
        self.write(slot, 0, &kept);
        Ok(())
    }

    fn write(self, slot: Slot<'a>, offset: usize, from: &[u8]) {
        let _latched = self.latch(slot);
        let Some(found) = self.groups.editor(slot.group()).find(slot.index()) else { return };
        if offset.checked_add(from.len()).is_some_and(|end| end <= found.len) {
            // SAFETY: the range lies in the object, and the latch makes it this thread's.
            unsafe { bytes::write(found.at.wrapping_add(offset), from) };
        }
    }

    fn remove(self, slot: Slot<'a>) {
        let _latched = self.latch(slot);
        let editor = self.groups.editor(slot.group());
        if let Some(found) = editor.find(slot.index()) {
            editor.remove(slot.index());
            slot.make_current();
            self.groups.end_id(slot);
            self.groups.counts().remove(found.len);
        }
    }

    fn reserve(self, id: ObjectId) -> Result<(), ObjectError> {
        let slot = self.slot(id)?;
        let _latched = self.latch(slot);
        let view = slot.group().view();
        if !view.is_present(slot.index()) && !view.is_marked(slot.index()) {
            slot.make_current();
            self.groups.reserve(slot);
        }
        Ok(())
    }
}

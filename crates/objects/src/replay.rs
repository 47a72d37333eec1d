//! Redo of the changes in dumps and logs, in a store that no other thread uses yet.
//!
//! A log begins before the dump that it belongs to, so the store may already be in a later state
//! than the next change. The changes that led to that state follow in the log as well, which is
//! synced before the dump gets its name. So it is enough that redo is idempotent: every change sets
//! its result whatever the state before, and a change that does not fit the state is skipped.

use std::sync::atomic::{AtomicI64, Ordering};

use terrace_sys::size::to_u64;

use crate::bytes;
use crate::error::ObjectError;
use crate::group::{Found, Group, View};
use crate::group_edit::Content;
use crate::id::ObjectId;
use crate::record::Change;
use crate::store::{ObjectStore, signed};
use crate::table::{generation_of, slot_of};

impl ObjectStore {
    /// Redoes a change of the log.
    pub(crate) fn replay(&self, change: Change<'_>) -> Result<(), ObjectError> {
        let id = change.id();
        let group = self.group_for_load(self.group_of(id))?;
        match change {
            Change::Put { bytes, .. } => self.set(group, id, |_| Some(Content::Bytes(bytes))),
            Change::Zeros { len, .. } => self.set(group, id, |_| Some(Content::Zeros(len))),
            Change::Resize { len, .. } => self.resize_again(group, id, len),
            Change::Write { offset, bytes, .. } => {
                self.write_again(group, id, offset, bytes);
                Ok(())
            }
            Change::Remove { .. } => {
                self.remove_again(group, id);
                Ok(())
            }
            Change::ReadOnly { read_only, .. } => match self.set_read_only(id, read_only) {
                Err(ObjectError::NotFound(_)) => Ok(()),
                set => set,
            },
            Change::Reserve { count, .. } => {
                let ids = id.to_bits()..id.to_bits().saturating_add(count);
                ids.into_iter().try_for_each(|id| self.reserve_again(ObjectId::from_bits(id)))
            }
            Change::Release { .. } => {
                let latched = self.latch_to_change(self.group_of(id), group);
                let view = group.view();
                if view.reserved_slots() >> slot_of(id) & 1 != 0 {
                    self.unreserve(id, latched.group, &view);
                    self.table.set_generation(id, generation_of(id));
                    self.end_id(self.group_of(id), latched.group, slot_of(id));
                }
                Ok(())
            }
        }
    }

    /// Returns the group of an id in a dump or log; the id counts as given out.
    pub(crate) fn group_for_load(&self, number: u64) -> Result<&Group, ObjectError> {
        let Some(n) = self.table.own_number(number) else { return self.other_group(number) };
        let given_out = self.groups.load(Ordering::SeqCst);
        if n >= given_out {
            self.fresh_groups(n + 1 - given_out)?;
        }
        Ok(self.own_group(n))
    }

    /// Sets the content of an object, which is created if it does not exist.
    pub(crate) fn set<'a>(
        &self,
        group: &Group,
        id: ObjectId,
        content: impl Fn(Option<Found>) -> Option<Content<'a>>,
    ) -> Result<(), ObjectError> {
        let mut tries = 0;
        loop {
            let latched = self.latch_to_change(self.group_of(id), group);
            let (editor, slot, view) = (self.editor(latched.group), slot_of(id), group.view());
            let before = editor.find(slot);
            let Some(content) = content(before) else { return Ok(()) };
            let done = match before {
                Some(found) if found.len == content.len() => {
                    // SAFETY: the object has as many bytes, and the latch makes them this thread's.
                    unsafe { content.overwrite(found.at) };
                    Ok(())
                }
                Some(_) => editor.replace(slot, content),
                None => editor.insert(slot, content).map(|()| self.unreserve(id, group, &view)),
            };
            if done.is_ok() {
                self.table.set_generation(id, generation_of(id));
            }
            match (done, before) {
                (Ok(()), None) => self.count_made(content.len()),
                (Ok(()), Some(before)) => {
                    let grown = signed(content.len()) - signed(before.len);
                    self.count().bytes.fetch_add(grown, Ordering::Relaxed);
                }
                (Err(no_room), before) => {
                    drop(latched);
                    let made = self.make_room(no_room.0, &mut tries);
                    let Some(found) = before.filter(|_| made.is_err()) else {
                        made?;
                        continue;
                    };
                    // The old object is removed to make room, as no other thread uses the store.
                    let latched = self.latch_to_change(self.group_of(id), group);
                    self.editor(latched.group).remove(slot);
                    self.count_removed(found.len);
                    tries = 0;
                    continue;
                }
            }
            return Ok(());
        }
    }

    fn resize_again(&self, group: &Group, id: ObjectId, len: usize) -> Result<(), ObjectError> {
        let latched = self.latch_to_change(self.group_of(id), group);
        let editor = self.editor(latched.group);
        let Some(now) = editor.find(slot_of(id)).filter(|now| now.len != len) else {
            return Ok(());
        };
        if editor.replace(slot_of(id), Content::Resized { now, len }).is_ok() {
            self.count().bytes.fetch_add(signed(len) - signed(now.len), Ordering::Relaxed);
            return Ok(());
        }
        let mut kept = Vec::new();
        let few = now.len.min(len);
        kept.try_reserve_exact(few).map_err(|_| self.out_of_memory(to_u64(few)))?;
        kept.resize(few, 0);
        // SAFETY: the object has as many bytes, and the latch makes them this thread's.
        unsafe { bytes::read(now.at, &mut kept) };
        drop(latched);
        self.set(group, id, |_| Some(Content::Zeros(len)))?;
        self.write_again(group, id, 0, &kept);
        Ok(())
    }

    fn write_again(&self, group: &Group, id: ObjectId, offset: usize, from: &[u8]) {
        let latched = self.latch_to_change(self.group_of(id), group);
        let Some(found) = self.editor(latched.group).find(slot_of(id)) else { return };
        if offset.checked_add(from.len()).is_some_and(|end| end <= found.len) {
            // SAFETY: the range lies in the object, and the latch makes it this thread's.
            unsafe { bytes::write(found.at.wrapping_add(offset), from) };
        }
    }

    fn remove_again(&self, group: &Group, id: ObjectId) {
        let latched = self.latch_to_change(self.group_of(id), group);
        let editor = self.editor(latched.group);
        if let Some(found) = editor.find(slot_of(id)) {
            editor.remove(slot_of(id));
            self.table.set_generation(id, generation_of(id));
            self.end_id(self.group_of(id), group, slot_of(id));
            self.count_removed(found.len);
        }
    }

    fn reserve_again(&self, id: ObjectId) -> Result<(), ObjectError> {
        let group = self.group_for_load(self.group_of(id))?;
        let latched = self.latch_to_change(self.group_of(id), group);
        let view = latched.group.view();
        if !view.is_present(slot_of(id)) && !view.is_marked(slot_of(id)) {
            self.table.set_generation(id, generation_of(id));
            latched.group.set_marked(slot_of(id), true);
            self.count_unused(id).fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends the reservation of an id in a latched group, if it was reserved `before`. Its slot may
    /// have been retired by a dump that is later than the log.
    pub(crate) fn unreserve(&self, id: ObjectId, group: &Group, before: &View) {
        // If the slot has an object, the mark says that it is locked or pinned.
        if before.reserved_slots() >> slot_of(id) & 1 != 0 {
            group.set_marked(slot_of(id), false);
            self.count_unused(id).fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the counter of the id's slot, which is marked and has no object: reserved or
    /// retired.
    fn count_unused(&self, id: ObjectId) -> &AtomicI64 {
        let worn_out = self.table.is_worn_out(self.group_of(id), slot_of(id));
        if worn_out { &self.count().retired } else { &self.count().reserved }
    }

    /// Lists all groups with free ids, as none has an owner yet.
    pub(crate) fn list_all(&self) {
        for n in 0..self.groups.load(Ordering::SeqCst) {
            let latched = self.latch(self.own_group(n));
            self.list(self.table.own(n), latched.group);
        }
    }
}

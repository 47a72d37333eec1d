//! Ids of new objects, and the groups that they are taken from.
//!
//! Threads create objects in groups of their own. Objects of a length that recurs go to groups of
//! that length, where they take no memory but their bytes; objects of other lengths share a group.
//! Groups that lost objects are listed by their contents, and are used again before new ones.
//!
//! Locking order: a maker, then a group's latch, then a list.

pub(crate) mod maker;
mod reservation;

use crate::durable::change::Change;
use crate::durable::log::Position;
use crate::error::ObjectError;
use crate::groups::content::Content;
use crate::groups::header::Far;
use crate::groups::table::Slot;
use crate::groups::{Groups, disown};
use crate::id::ObjectId;
use crate::objects::{Objects, Trouble};
use maker::{Maker, Makers, Purpose};

/// Other groups tried when there is no room to extend the current one.
const GROUPS_TRIED: std::ops::Range<u32> = 0..2;

/// Operations that create objects and reserve ids, over the objects and makers of a store.
#[derive(Clone, Copy)]
pub(crate) struct Ids<'a> {
    objects: &'a Objects,
    makers: &'a Makers,
}

impl<'a> Ids<'a> {
    pub(crate) fn new(objects: &'a Objects, makers: &'a Makers) -> Self {
        Self { objects, makers }
    }

    fn groups(self) -> &'a Groups {
        self.objects.groups()
    }

    /// Creates an object, once it is as durable as configured, and returns its id.
    pub(crate) fn create(self, content: Content<'_>) -> Result<ObjectId, ObjectError> {
        let (id, position) = self.create_unwaited(content)?;
        // On failure the object is removed, as it is not in the log and its id was not returned.
        let committed = self.objects.journal().commit(position);
        committed.map(|()| id).inspect_err(|_| self.take_back(id))
    }

    /// Creates objects with these bytes, all or none.
    pub(crate) fn create_many(self, objects: &[&[u8]]) -> Result<Vec<ObjectId>, ObjectError> {
        let (mut ids, mut position) = (Vec::with_capacity(objects.len()), 0);
        for bytes in objects {
            match self.create_unwaited(Content::Bytes(bytes)) {
                Ok((id, noted)) => {
                    ids.push(id);
                    position = noted;
                }
                Err(error) => {
                    ids.iter().for_each(|id| self.take_back(*id));
                    return Err(error);
                }
            }
        }
        let all = |_: &ObjectError| ids.iter().for_each(|id| self.take_back(*id));
        self.objects.journal().commit(position).inspect_err(all)?;
        Ok(ids)
    }

    /// Creates an object without waiting for the log.
    fn create_unwaited(self, content: Content<'_>) -> Result<(ObjectId, Position), ObjectError> {
        self.objects.journal().is_here()?;
        let placed = self.objects.place_ahead(content)?;
        let mut tries = 0;
        loop {
            // The maker is unlocked before room is made.
            let mut maker = self.makers.lock();
            let made = self.create_in(&mut maker, content, placed.far());
            made.iter().for_each(|_| placed.keep());
            drop(maker);
            match made {
                Ok(made) => return Ok(made),
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::NoRoom(granules)) => self.objects.make_room(granules, &mut tries)?,
            }
        }
    }

    /// Removes an object whose id was not returned, unless another thread found and holds it.
    fn take_back(self, id: ObjectId) {
        let Ok(slot) = self.groups().find(id) else { return };
        let _latched = self.objects.latch(slot);
        let view = slot.group().view();
        if !slot.is_present(&view) || view.is_marked(slot.index()) {
            return;
        }
        let editor = self.groups().editor(slot.group());
        let len = editor.find(slot.index()).map_or(0, |found| found.len);
        editor.remove(slot.index());
        self.groups().end_id(slot);
        self.groups().list(slot.number(), slot.group());
        self.groups().counts().remove(len);
        // A failed log does not record this; a log that was begun since has the object.
        self.objects.journal().note(Change::Remove { id });
    }

    fn create_in(
        self,
        maker: &mut Maker,
        content: Content<'_>,
        placed: Option<Far>,
    ) -> Result<(ObjectId, Position), Trouble> {
        let len = content.len();
        let purpose = maker.purpose(len);
        self.in_free_slot(maker, purpose, |slot, id| {
            self.objects.journal().is_sound()?;
            let editor = self.groups().editor(slot.group());
            match placed {
                Some(far) => editor.insert_far(slot.index(), far)?,
                None => editor.insert(slot.index(), content)?,
            }
            self.groups().counts().add(len);
            Ok(self.objects.journal().note(Change::of(id, content)))
        })
    }

    /// Runs `work` with a free slot of the maker's group for `purpose`, which is latched, and with
    /// the slot's id. Takes another group if that one has no free slot, or no room. Returns the id,
    /// and the log position that `work` returned.
    fn in_free_slot(
        self,
        maker: &mut Maker,
        purpose: Purpose,
        work: impl Fn(Slot<'a>, ObjectId) -> Result<Position, Trouble>,
    ) -> Result<(ObjectId, Position), Trouble> {
        let (groups, mut others) = (self.groups(), GROUPS_TRIED);
        loop {
            let current = maker.group(groups, purpose)?;
            let (number, group) = (groups.table().own(current), groups.own(current));
            let latched = self.objects.journal().latch(groups, number, group);
            let Some(index) = groups.free_slot(number, &group.view()) else {
                maker.forget(purpose);
                disown(group);
                continue;
            };
            let id = groups.table().id_at(number, index);
            let position = match work(groups.table().current(number, group, index), id) {
                Ok(position) => position,
                Err(trouble) => {
                    drop(latched);
                    let Trouble::NoRoom(_) = trouble else { return Err(trouble) };
                    // Groups that lost objects may still have room in their runs.
                    let other = others.next().and_then(|_| groups.unlist(purpose.list()));
                    let Some(other) = other else { return Err(trouble) };
                    groups.leave(maker.replace(purpose, other));
                    continue;
                }
            };
            if groups.free_slot(number, &group.view()).is_none() {
                maker.forget(purpose);
                disown(group);
            }
            return Ok((id, position));
        }
    }
}

//! Reservation of ids, objects with ids of other nodes, and objects with consecutive ids.

use std::collections::VecDeque;

use terrace_sys::size::{to_u64, to_usize};

use super::Ids;
use super::maker::{Maker, Purpose};
use crate::config::OBJECT_BYTES_MAX;
use crate::durable::change::Change;
use crate::durable::log::Position;
use crate::error::ObjectError;
use crate::groups::Groups;
use crate::groups::content::Content;
use crate::groups::group::{GROUP_SLOTS, Group, View};
use crate::groups::table::{Slot, slot_of};
use crate::id::{LOCAL_MAX, ObjectId};
use crate::objects::Trouble;

/// Number of ranges of empty groups that are examined for one without reserved ids.
const GROUPS_TRIED: usize = 8;

impl<'a> Ids<'a> {
    /// Reserves an id without an object, once that is as durable as configured, and returns it.
    pub(crate) fn reserve(self) -> Result<ObjectId, ObjectError> {
        self.objects.journal().is_here()?;
        let mut maker = self.makers.lock();
        let reserved = self.in_free_slot(&mut maker, Purpose::Reserved, |slot, id| {
            self.objects.journal().is_sound()?;
            self.groups().reserve(slot);
            Ok(self.objects.journal().note(Change::Reserve { id, count: 1 }))
        });
        drop(maker);
        match reserved {
            Ok((id, position)) => {
                let committed = self.objects.journal().commit(position);
                committed.inspect_err(|_| self.unreserve_unheard(id))?;
                Ok(id)
            }
            Err(Trouble::Error(error)) => Err(error),
            Err(Trouble::NoRoom(_)) => unreachable!("an id takes no memory"),
        }
    }

    /// Releases a reserved id.
    pub(crate) fn release(self, id: ObjectId) -> Result<(), ObjectError> {
        self.objects.journal().is_here()?;
        let wrong = ObjectError::NotReserved(id);
        let Ok(slot) = self.groups().find(id) else { return Err(wrong) };
        let latched = self.objects.latch(slot);
        let view = slot.group().view();
        if !slot.is_reserved(&view) || self.groups().table().is_retired(id) {
            return Err(wrong);
        }
        self.objects.journal().is_sound()?;
        let position = self.end_reservation(id, slot, &view);
        drop(latched);
        self.objects.journal().commit(position)
    }

    /// Releases an id that was reserved but not returned, if it is still reserved.
    fn unreserve_unheard(self, id: ObjectId) {
        let Ok(slot) = self.groups().find(id) else { return };
        let _latched = self.objects.latch(slot);
        let view = slot.group().view();
        if slot.is_reserved(&view) {
            self.end_reservation(id, slot, &view);
        }
    }

    /// Ends a reservation in a latched group, and with it the id.
    fn end_reservation(self, id: ObjectId, slot: Slot<'a>, view: &View) -> Position {
        self.groups().unreserve(slot, view);
        self.groups().end_id(slot);
        self.groups().list(slot.number(), slot.group());
        self.objects.journal().note(Change::Release { id })
    }

    /// Creates an object with a reserved id, or with an id of another node that no object has here.
    pub(crate) fn create_reserved(self, id: ObjectId, bytes: &[u8]) -> Result<(), ObjectError> {
        self.objects.journal().is_here()?;
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(bytes.len()));
        }
        let (groups, foreign) = (self.groups(), id.node() != self.makers.node());
        if id.to_bits() == 0 || groups.table().is_retired(id) {
            return Err(ObjectError::NotReserved(id));
        }
        if foreign {
            groups.other(groups.table().group_of(id))?;
        }
        let slot = groups.find(id).map_err(|_| ObjectError::NotReserved(id))?;
        let mut tries = 0;
        loop {
            let latched = self.objects.latch(slot);
            let view = slot.group().view();
            let own = view.is_marked(slot.index()) && slot.is_current();
            if view.is_present(slot.index()) || !(own || foreign) {
                return Err(ObjectError::NotReserved(id));
            }
            self.objects.journal().is_sound()?;
            let editor = groups.editor(slot.group());
            if let Err(no_room) = editor.insert(slot.index(), Content::Bytes(bytes)) {
                drop(latched);
                self.objects.make_room(no_room.0, &mut tries)?;
                continue;
            }
            groups.unreserve(slot, &view);
            slot.make_current();
            groups.counts().add(bytes.len());
            let position = self.objects.journal().note(Change::Put { id, bytes });
            drop(latched);
            return self.objects.journal().commit(position);
        }
    }

    /// Creates objects with these bytes and consecutive ids. Returns the first id, or the id of
    /// zero bits, which names nothing, if there are no objects.
    pub(crate) fn create_consecutive(self, objects: &[&[u8]]) -> Result<ObjectId, ObjectError> {
        self.objects.journal().is_here()?;
        if let Some(long) = objects.iter().find(|bytes| bytes.len() > OBJECT_BYTES_MAX) {
            return Err(ObjectError::TooLong(long.len()));
        }
        if objects.is_empty() {
            return Ok(ObjectId::from_bits(0));
        }
        loop {
            let (first, _) = self.cut_ids(&mut self.makers.lock(), to_u64(objects.len()))?;
            let made = if objects.len() <= to_usize(GROUP_SLOTS) {
                self.fill_part(first, objects)
            } else {
                self.fill_groups(first, objects)
            };
            let made = made.inspect_err(|_| self.give_back(first, objects.len()))?;
            let Some(position) = made else {
                self.give_back(first, objects.len());
                continue;
            };
            self.leave_row(first, to_u64(objects.len()));
            let ids = first.to_bits()..first.to_bits() + to_u64(objects.len());
            let undo = |_: &ObjectError| ids.for_each(|id| self.take_back(ObjectId::from_bits(id)));
            let committed = self.objects.journal().commit(position);
            return committed.map(|()| first).inspect_err(undo);
        }
    }

    /// Creates objects in one group, all or none, as one step. Returns the log position of the last
    /// one, or `None` if another caller has used or released one of the reserved ids.
    fn fill_part(
        self,
        first: ObjectId,
        objects: &[&[u8]],
    ) -> Result<Option<Position>, ObjectError> {
        let groups = self.groups();
        let Ok(slot) = groups.find(first) else { return Ok(Some(0)) };
        let mut tries = 0;
        loop {
            let latched = self.objects.latch(slot);
            self.objects.journal().is_sound()?;
            let (editor, view) = (groups.editor(slot.group()), slot.group().view());
            if !are_untouched(&view, first, objects.len()) {
                return Ok(None);
            }
            let mut inserted = (slot.index()..).zip(objects).map(|(index, bytes)| {
                editor.insert(index, Content::Bytes(bytes)).map_err(|no_room| (index, no_room))
            });
            if let Err((failed, no_room)) = inserted.by_ref().collect::<Result<(), _>>() {
                (slot.index()..failed).for_each(|index| editor.remove(index));
                drop(latched);
                self.objects.make_room(no_room.0, &mut tries)?;
                continue;
            }
            let number = slot.number();
            return Ok(Some(self.note_made(number, slot.group(), slot.index(), objects, &view)));
        }
    }

    /// Counts and logs objects that were made in a latched group, from slot `first` on. `before` is
    /// the group before that, with their ids reserved. Returns the log position of the last one.
    fn note_made(
        self,
        number: u64,
        group: &'a Group,
        first: u32,
        objects: &[&[u8]],
        before: &View,
    ) -> Position {
        let (groups, mut position) = (self.groups(), 0);
        for (index, bytes) in (first..).zip(objects) {
            let id = groups.table().id_at(number, index);
            groups.unreserve(groups.table().current(number, group, index), before);
            groups.counts().add(bytes.len());
            position = self.objects.journal().note(Change::Put { id, bytes });
        }
        position
    }

    /// Creates objects in whole empty groups, which are built before they become visible. Returns
    /// the same as `fill_part`.
    fn fill_groups(
        self,
        first: ObjectId,
        objects: &[&[u8]],
    ) -> Result<Option<Position>, ObjectError> {
        let groups = self.groups();
        let _building = groups.build();
        let mut built = Built { groups, built: VecDeque::new() };
        for objects in objects.chunks(to_usize(GROUP_SLOTS)) {
            built.built.push_back(Group::default());
            built.built.back().map_or(Ok(()), |group| self.build(group, objects))?;
        }
        let (mut position, mut done) = (0, 0);
        let numbers = groups.table().group_of(first)..;
        for (number, objects) in numbers.zip(objects.chunks(to_usize(GROUP_SLOTS))) {
            let group = groups.for_load(number)?;
            let latched = self.objects.journal().latch(groups, number, group);
            let first_here = groups.table().id_at(number, 0);
            let untouched = are_untouched(&group.view(), first_here, objects.len());
            let goes_on = self.objects.journal().is_sound().map(|()| untouched);
            if !matches!(goes_on, Ok(true)) {
                drop(latched);
                let ids = first.to_bits()..first.to_bits() + done;
                ids.for_each(|id| self.take_back(ObjectId::from_bits(id)));
                return goes_on.map(|_| None);
            }
            let (before, next) = (group.view(), built.built.pop_front());
            group.adopt(&next.unwrap_or_default().view());
            position = self.note_made(number, group, 0, objects, &before);
            done += to_u64(objects.len());
        }
        Ok(Some(position))
    }

    /// Inserts objects into a group that no other thread can see.
    fn build(self, group: &Group, objects: &[&[u8]]) -> Result<(), ObjectError> {
        for (index, bytes) in (0..).zip(objects) {
            let mut tries = 0;
            loop {
                let inserted = self.groups().editor(group).insert(index, Content::Bytes(bytes));
                let Err(no_room) = inserted else { break };
                self.objects.make_room(no_room.0, &mut tries)?;
            }
        }
        Ok(())
    }

    /// Reserves `count` consecutive ids. Returns the first, as [`Ids::create_consecutive`].
    pub(crate) fn reserve_consecutive(self, count: u64) -> Result<ObjectId, ObjectError> {
        self.objects.journal().is_here()?;
        let (first, position) = self.cut_ids(&mut self.makers.lock(), count)?;
        let committed = self.objects.journal().commit(position);
        committed.inspect_err(|_| self.give_back(first, to_usize(count)))?;
        self.leave_row(first, count);
        Ok(first)
    }

    /// Releases consecutive ids without objects.
    fn give_back(self, first: ObjectId, count: usize) {
        let ids = first.to_bits()..first.to_bits() + to_u64(count);
        ids.clone().for_each(|id| self.unreserve_unheard(ObjectId::from_bits(id)));
        self.leave_row(first, to_u64(count));
    }

    /// Ends the ownership of the whole groups that more than 64 consecutive ids were taken from.
    fn leave_row(self, first: ObjectId, count: u64) {
        let table = self.groups().table();
        let first = table.own_number(table.group_of(first)).filter(|_| count > GROUP_SLOTS);
        let row = first.map(|first| first..first + count.div_ceil(GROUP_SLOTS));
        row.into_iter().flatten().for_each(|n| self.groups().leave(n));
    }

    /// Reserves consecutive ids: in the current group if they fit, otherwise in whole groups,
    /// which the caller owns and must release.
    fn cut_ids(self, maker: &mut Maker, count: u64) -> Result<(ObjectId, Position), ObjectError> {
        if count == 0 {
            return Ok((ObjectId::from_bits(0), 0));
        }
        let (groups, table) = (self.groups(), self.groups().table());
        if count > LOCAL_MAX {
            return Err(groups.out_of_ids());
        }
        let start = if count <= GROUP_SLOTS {
            self.cut_span(maker, count)?
        } else {
            self.claim_groups(count.div_ceil(GROUP_SLOTS))? * GROUP_SLOTS
        };
        let id_of = |local| {
            let group = table.own(local / GROUP_SLOTS);
            table.id_at(group, slot_of(ObjectId::from_bits(local)))
        };
        let first = id_of(start);
        let mut position = 0;
        for local in (start..start + count).step_by(to_usize(GROUP_SLOTS)) {
            let group = groups.own(local / GROUP_SLOTS);
            let id = id_of(local);
            let here = to_usize(GROUP_SLOTS.min(start + count - local));
            let latched = self.objects.journal().latch(groups, table.group_of(id), group);
            if let Err(error) = self.objects.journal().is_sound() {
                drop(latched);
                self.give_back(first, to_usize(count));
                return Err(error);
            }
            let slots = (0..64).skip(slot_of(id) as usize).take(here);
            slots.for_each(|slot| group.set_marked(slot, true));
            groups.counts().reserve(here);
            position = self.objects.journal().note(Change::Reserve { id, count: to_u64(here) });
        }
        Ok((first, position))
    }

    /// Takes consecutive ids from the maker's group for them, or from another group without
    /// objects.
    fn cut_span(self, maker: &mut Maker, count: u64) -> Result<u64, ObjectError> {
        loop {
            if let Some(start) = maker.cut_span(count) {
                return Ok(start);
            }
            let n = self.claim_groups(1)?;
            // No object has the id 0.
            let skipped = u64::from(self.groups().table().own(n) == 0);
            if let Some(old) = maker.begin_span(n, skipped) {
                self.groups().leave(old);
            }
        }
    }

    /// Takes ownership of `count` consecutive groups without objects and reserved ids, which are
    /// former groups that lost their objects, or new ones. Returns the first.
    fn claim_groups(self, count: u64) -> Result<u64, ObjectError> {
        let (groups, table) = (self.groups(), self.groups().table());
        let mut refused = Vec::new();
        let found =
            std::iter::from_fn(|| groups.unlist_empty(count)).take(GROUPS_TRIED).find(|row| {
                // Some ids may be reserved or have objects again, no object has the id 0, and ids
                // of different generations are not consecutive.
                let first = row.first().map_or(0, |n| table.generation(table.own(*n), 0));
                let is_equal = |all: [u8; 64]| all.iter().all(|it| *it == first);
                let is_empty = |n: &u64| {
                    let (number, view) = (table.own(*n), groups.own(*n).view());
                    let equal = table.generations_of(number).is_none_or(is_equal);
                    view.present | view.marked == 0 && number != 0 && equal
                };
                let suits = to_u64(row.len()) == count && row.iter().all(is_empty);
                refused.extend(row.iter().filter(|_| !suits));
                suits
            });
        refused.into_iter().for_each(|n| groups.leave(n));
        if let Some(first) = found.and_then(|row| row.first().copied()) {
            return Ok(first);
        }
        let mut first = groups.fresh(count)?;
        if count > 1 && table.own(first) == 0 {
            // No object has the id 0, so the first group of all cannot be used whole.
            (first..first + count).for_each(|n| groups.take(n));
            (first..first + count).for_each(|n| groups.leave(n));
            first = groups.fresh(count)?;
        }
        (first..first + count).for_each(|n| groups.take(n));
        Ok(first)
    }
}

/// True if ids of a latched group are still reserved and without objects: a caller that guessed one
/// may have created its object or released it.
fn are_untouched(view: &View, first: ObjectId, count: usize) -> bool {
    let slots = u64::MAX >> (64 - count.min(64)) << slot_of(first);
    view.present & slots == 0 && view.reserved_slots() & slots == slots
}

/// Groups of objects that are not visible yet. The objects of those left are removed when this is
/// dropped.
struct Built<'a> {
    groups: &'a Groups,
    built: VecDeque<Group>,
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        for group in &self.built {
            let editor = self.groups.editor(group);
            group.view().slots().for_each(|slot| editor.remove(slot));
        }
    }
}

//! Ids without objects: reserved ones, those of other nodes, and consecutive ones.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use terrace_sys::size::{to_u64, to_usize};

use crate::edit::Content;
use crate::error::ObjectError;
use crate::group::{GROUP_SLOTS, Group, View};
use crate::id::{LOCAL_MAX, ObjectId};
use crate::ids::{Maker, Purpose, lock};
use crate::log::Position;
use crate::record::Change;
use crate::store::{OBJECT_BYTES_MAX, ObjectStore, Trouble, signed};
use crate::table::{generation_of, slot_of};

/// Rows of groups without objects that are looked at for one that has no reserved ids either.
const GROUPS_TRIED: usize = 8;

impl ObjectStore {
    /// Reserves an id without an object: [`ObjectStore::create_reserved`] gives it one, and
    /// [`ObjectStore::release`] gives it back.
    ///
    /// # Errors
    /// [`ObjectError::OutOfIds`]; [`ObjectError::OutOfMemory`] when the budget has no room for more
    /// of the table.
    pub fn reserve(&self) -> Result<ObjectId, ObjectError> {
        self.is_here()?;
        let mut maker = lock(self.maker());
        let reserved = self.in_free_slot(&mut maker, Purpose::Reserved, |group, id| {
            self.is_loggable()?;
            group.set_marked(slot_of(id), true);
            self.count().reserved.fetch_add(1, Ordering::Relaxed);
            Ok(self.note(Change::Reserve { id, count: 1 }))
        });
        drop(maker);
        match reserved {
            Ok((id, position)) => {
                self.commit(position).inspect_err(|_| self.unreserve_unheard(id))?;
                Ok(id)
            }
            Err(Trouble::Error(error)) => Err(error),
            Err(Trouble::NoRoom(_)) => unreachable!("an id takes no memory"),
        }
    }

    /// Gives a reserved id back.
    ///
    /// # Errors
    /// [`ObjectError::NotReserved`].
    pub fn release(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.is_here()?;
        let wrong = ObjectError::NotReserved(id);
        let Some(group) = self.table.get(self.group_of(id)) else { return Err(wrong) };
        let latched = self.latch_to_change(self.group_of(id), group);
        let view = latched.group.view();
        let reserved = view.reserved_slots() >> slot_of(id) & 1 != 0;
        if !reserved || !self.table.is_current(id) || self.table.is_retired(id) {
            return Err(wrong);
        }
        self.is_loggable()?;
        self.unreserve(id, group, &view);
        self.end_id(self.group_of(id), group, slot_of(id));
        self.list(self.group_of(id), group);
        let position = self.note(Change::Release { id });
        drop(latched);
        self.commit(position)
    }

    /// Gives an id back whose reservation is not in the log.
    fn unreserve_unheard(&self, id: ObjectId) {
        let Some(group) = self.table.get(self.group_of(id)) else { return };
        let latched = self.latch_to_change(self.group_of(id), group);
        let view = group.view();
        if view.reserved_slots() >> slot_of(id) & 1 != 0 && self.table.is_current(id) {
            self.unreserve(id, latched.group, &view);
            self.end_id(self.group_of(id), group, slot_of(id));
            self.list(self.group_of(id), group);
            self.note(Change::Release { id });
        }
    }

    /// Makes an object with a reserved id, or with an id of another node that no object has here:
    /// that is how objects come from elsewhere. Where ids have generations, no id has the last one;
    /// an id of another node may come again after its object was removed, as that node knows what
    /// it names.
    ///
    /// # Errors
    /// [`ObjectError::NotReserved`]; [`ObjectError::OutOfMemory`], [`ObjectError::TooLong`].
    pub fn create_reserved(&self, id: ObjectId, bytes: &[u8]) -> Result<(), ObjectError> {
        self.is_here()?;
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(bytes.len()));
        }
        let foreign = id.node() != self.config.node;
        if id.to_bits() == 0 || self.table.is_retired(id) {
            return Err(ObjectError::NotReserved(id));
        }
        let group = if foreign {
            self.other_group(self.group_of(id))?
        } else {
            self.table.get(self.group_of(id)).ok_or(ObjectError::NotReserved(id))?
        };
        let mut tries = 0;
        loop {
            let latched = self.latch_to_change(self.group_of(id), group);
            let view = group.view();
            let reserved = view.is_marked(slot_of(id));
            let own = reserved && self.table.is_current(id);
            if view.is_present(slot_of(id)) || !(own || foreign) {
                return Err(ObjectError::NotReserved(id));
            }
            self.is_loggable()?;
            let made = self.editor(latched.group).insert(slot_of(id), Content::Bytes(bytes));
            if let Err(no_room) = made {
                drop(latched);
                self.make_room(no_room.0, &mut tries)?;
                continue;
            }
            self.unreserve(id, group, &view);
            self.table.set_generation(id, generation_of(id));
            self.count_made(bytes.len());
            let position = self.note(Change::Put { id, bytes });
            drop(latched);
            return self.commit(position);
        }
    }

    /// A group for ids of other nodes; it is made, and paid for, if it is not there yet.
    pub(crate) fn other_group(&self, number: u64) -> Result<&Group, ObjectError> {
        if let Some(group) = self.table.get(number) {
            return Ok(group);
        }
        let part_bytes = self.table.part_bytes();
        self.account.pay_table(part_bytes).map_err(|_| self.out_of_memory(part_bytes))?;
        // `check` latches all groups that there are: none comes to them meanwhile.
        let _building = self.building.read().unwrap_or_else(PoisonError::into_inner);
        let (made, group) = self.table.get_or_make(number);
        if !made {
            self.account.give_back(part_bytes);
        }
        Ok(group)
    }

    /// Makes objects of some bytes each with consecutive ids; the first id, or that of zero bits,
    /// which names nothing, when there are none. Nobody sees any of them before there is room for
    /// all, and up to 64 appear at once.
    ///
    /// # Errors
    /// As [`ObjectStore::create`]; there is none of them then.
    pub fn create_consecutive(&self, objects: &[&[u8]]) -> Result<ObjectId, ObjectError> {
        self.is_here()?;
        if let Some(long) = objects.iter().find(|bytes| bytes.len() > OBJECT_BYTES_MAX) {
            return Err(ObjectError::TooLong(long.len()));
        }
        if objects.is_empty() {
            return Ok(ObjectId::from_bits(0));
        }
        loop {
            let (first, _) = self.cut_ids(&mut lock(self.maker()), to_u64(objects.len()))?;
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
            return self.commit(position).map(|()| first).inspect_err(undo);
        }
    }

    /// Makes objects in one group, all or none, as one step; none where somebody guessed one of the
    /// ids and took it.
    fn fill_part(
        &self,
        first: ObjectId,
        objects: &[&[u8]],
    ) -> Result<Option<Position>, ObjectError> {
        let Some(group) = self.table.get(self.group_of(first)) else { return Ok(Some(0)) };
        let mut tries = 0;
        loop {
            let latched = self.latch_to_change(self.group_of(first), group);
            self.is_loggable()?;
            let (editor, view) = (self.editor(latched.group), group.view());
            if !are_untouched(&view, first, objects.len()) {
                return Ok(None);
            }
            let slots = || slot_of(first)..;
            let mut inserted = slots().zip(objects).map(|(slot, bytes)| {
                editor.insert(slot, Content::Bytes(bytes)).map_err(|no_room| (slot, no_room))
            });
            if let Err((failed, no_room)) = inserted.by_ref().collect::<Result<(), _>>() {
                (slot_of(first)..failed).for_each(|slot| editor.remove(slot));
                drop(latched);
                self.make_room(no_room.0, &mut tries)?;
                continue;
            }
            let mut position = 0;
            for (slot, bytes) in slots().zip(objects) {
                let id = self.id_at(self.group_of(first), slot);
                self.unreserve(id, group, &view);
                self.count_made(bytes.len());
                position = self.note(Change::Put { id, bytes });
            }
            return Ok(Some(position));
        }
    }

    /// Makes objects in whole groups that have none: first where nobody sees them. None as above.
    fn fill_groups(
        &self,
        first: ObjectId,
        objects: &[&[u8]],
    ) -> Result<Option<Position>, ObjectError> {
        let _building = self.building.read().unwrap_or_else(PoisonError::into_inner);
        let mut built = Built { store: self, groups: VecDeque::new() };
        for objects in objects.chunks(to_usize(GROUP_SLOTS)) {
            built.groups.push_back(Group::default());
            built.groups.back().map_or(Ok(()), |group| self.build(group, objects))?;
        }
        let (mut position, mut done) = (0, 0);
        let numbers = self.group_of(first)..;
        for (number, objects) in numbers.zip(objects.chunks(to_usize(GROUP_SLOTS))) {
            let group = self.group_for_load(number)?;
            let latched = self.latch_to_change(number, group);
            let untouched = are_untouched(&group.view(), self.id_at(number, 0), objects.len());
            let goes_on = self.is_loggable().map(|()| untouched);
            if !matches!(goes_on, Ok(true)) {
                drop(latched);
                let ids = first.to_bits()..first.to_bits() + done;
                ids.for_each(|id| self.take_back(ObjectId::from_bits(id)));
                return goes_on.map(|_| None);
            }
            let (before, next) = (group.view(), built.groups.pop_front());
            latched.group.adopt(&next.unwrap_or_default().view());
            for (slot, bytes) in (0..).zip(objects) {
                let id = self.id_at(number, slot);
                self.unreserve(id, group, &before);
                self.count_made(bytes.len());
                position = self.note(Change::Put { id, bytes });
            }
            done += to_u64(objects.len());
        }
        Ok(Some(position))
    }

    /// Puts objects into a group that nobody else sees.
    fn build(&self, group: &Group, objects: &[&[u8]]) -> Result<(), ObjectError> {
        for (slot, bytes) in (0..).zip(objects) {
            let mut tries = 0;
            while let Err(no_room) = self.editor(group).insert(slot, Content::Bytes(bytes)) {
                self.make_room(no_room.0, &mut tries)?;
            }
        }
        Ok(())
    }

    /// Reserves so many consecutive ids; the first, as [`ObjectStore::create_consecutive`].
    ///
    /// # Errors
    /// As [`ObjectStore::reserve`].
    pub fn reserve_consecutive(&self, count: u64) -> Result<ObjectId, ObjectError> {
        self.is_here()?;
        let (first, position) = self.cut_ids(&mut lock(self.maker()), count)?;
        self.commit(position).inspect_err(|_| self.give_back(first, to_usize(count)))?;
        self.leave_row(first, count);
        Ok(first)
    }

    /// Gives consecutive ids back that nothing was made of.
    fn give_back(&self, first: ObjectId, count: usize) {
        let ids = first.to_bits()..first.to_bits() + to_u64(count);
        ids.clone().for_each(|id| self.unreserve_unheard(ObjectId::from_bits(id)));
        self.leave_row(first, to_u64(count));
    }

    /// Leaves the whole groups that consecutive ids were cut from.
    fn leave_row(&self, first: ObjectId, count: u64) {
        let first = self.table.own_number(self.group_of(first)).filter(|_| count > GROUP_SLOTS);
        let row = first.map(|first| first..first + count.div_ceil(GROUP_SLOTS));
        row.into_iter().flatten().for_each(|n| self.leave_group(n));
    }

    /// Reserves consecutive ids: of one group when that has so many, else of whole groups, which
    /// are the caller's to leave.
    fn cut_ids(&self, maker: &mut Maker, count: u64) -> Result<(ObjectId, Position), ObjectError> {
        if count == 0 {
            return Ok((ObjectId::from_bits(0), 0));
        }
        if count > LOCAL_MAX {
            return Err(self.out_of_ids());
        }
        let start = if count <= GROUP_SLOTS {
            self.cut_span(maker, count)?
        } else {
            self.claim_groups(count.div_ceil(GROUP_SLOTS))? * GROUP_SLOTS
        };
        let id_of = |local| {
            let group = self.table.own(local / GROUP_SLOTS);
            self.id_at(group, slot_of(ObjectId::from_bits(local)))
        };
        let first = id_of(start);
        let mut position = 0;
        for local in (start..start + count).step_by(to_usize(GROUP_SLOTS)) {
            let group = self.own_group(local / GROUP_SLOTS);
            let id = id_of(local);
            let here = to_usize(GROUP_SLOTS.min(start + count - local));
            let latched = self.latch_to_change(self.group_of(id), group);
            if let Err(error) = self.is_loggable() {
                drop(latched);
                self.give_back(first, to_usize(count));
                return Err(error);
            }
            let slots = (0..64).skip(slot_of(id) as usize).take(here);
            slots.for_each(|slot| group.set_marked(slot, true));
            self.count().reserved.fetch_add(signed(here), Ordering::Relaxed);
            position = self.note(Change::Reserve { id, count: to_u64(here) });
        }
        Ok((first, position))
    }

    /// Consecutive ids of the maker's group for them, or of another that has no objects.
    fn cut_span(&self, maker: &mut Maker, count: u64) -> Result<u64, ObjectError> {
        while maker.span.end - maker.span.start < count {
            let old = maker.span.clone();
            let n = self.claim_groups(1)?;
            maker.span = n * GROUP_SLOTS..(n + 1) * GROUP_SLOTS;
            // Nothing has the id 0.
            maker.span.start += u64::from(self.table.own(n) == 0);
            if old.end > 0 {
                self.leave_group(old.end / GROUP_SLOTS - 1);
            }
        }
        let start = maker.span.start;
        maker.span.start += count;
        Ok(start)
    }

    /// So many groups in a row without objects and reserved ids become the caller's: such as lost
    /// theirs, or new ones.
    fn claim_groups(&self, count: u64) -> Result<u64, ObjectError> {
        let mut refused = Vec::new();
        let found =
            std::iter::from_fn(|| self.unlist_empty(count)).take(GROUPS_TRIED).find(|row| {
                // Reserved ids may be some, or have become objects, nothing has the id 0, and ids
                // of different generations are not consecutive.
                let first = row.first().map_or(0, |n| self.table.generation(self.table.own(*n), 0));
                let is_equal = |all: [u8; 64]| all.iter().all(|it| *it == first);
                let is_empty = |n: &u64| {
                    let (number, view) = (self.table.own(*n), self.own_group(*n).view());
                    let equal = self.table.generations_of(number).is_none_or(is_equal);
                    view.present | view.marked == 0 && number != 0 && equal
                };
                let suits = to_u64(row.len()) == count && row.iter().all(is_empty);
                refused.extend(row.iter().filter(|_| !suits));
                suits
            });
        refused.into_iter().for_each(|n| self.leave_group(n));
        if let Some(first) = found.and_then(|row| row.first().copied()) {
            return Ok(first);
        }
        let mut first = self.fresh_groups(count)?;
        if count > 1 && self.table.own(first) == 0 {
            // Nothing has the id 0, so that the first group of all is no whole one.
            (first..first + count).for_each(|n| self.own(n));
            (first..first + count).for_each(|n| self.leave_group(n));
            first = self.fresh_groups(count)?;
        }
        (first..first + count).for_each(|n| self.own(n));
        Ok(first)
    }
}

/// Whether ids of a latched group are as they were left when they were reserved: whoever guesses
/// one may have made an object with it, or given it back.
fn are_untouched(view: &View, first: ObjectId, count: usize) -> bool {
    let slots = u64::MAX >> (64 - count.min(64)) << slot_of(first);
    view.present & slots == 0 && view.reserved_slots() & slots == slots
}

/// Groups of objects that nobody sees yet. Those that are left when it is dropped are given back.
struct Built<'a> {
    store: &'a ObjectStore,
    groups: VecDeque<Group>,
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        for group in &self.groups {
            let editor = self.store.editor(group);
            group.view().slots().for_each(|slot| editor.remove(slot));
        }
    }
}

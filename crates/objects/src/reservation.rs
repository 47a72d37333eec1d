//! Reservation of ids, objects with ids of other nodes, and objects with consecutive ids.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;
use terrace_sys::sync::read;

use crate::error::ObjectError;
use crate::group::{GROUP_SLOTS, Group, View};
use crate::group_edit::Content;
use crate::id::{LOCAL_MAX, ObjectId};
use crate::ids::{Maker, Purpose};
use crate::log::Position;
use crate::record::Change;
use crate::store::{OBJECT_BYTES_MAX, ObjectStore, Trouble, signed};
use crate::table::{generation_of, slot_of};

/// Rows of empty groups that are examined for one without reserved ids, too.
const GROUPS_TRIED: usize = 8;

impl ObjectStore {
    /// Reserves an id without an object: [`ObjectStore::create_reserved`] creates its object, and
    /// [`ObjectStore::release`] releases the id.
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

    /// Releases a reserved id.
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

    /// Releases an id whose reservation could not be logged.
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

    /// Creates an object with a reserved id, or with an id of another node that no object has here:
    /// this is how objects come from other nodes. If ids have generations, no id has the last one;
    /// an id of another node may be used again after its object was removed, as that node decides
    /// what it names.
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

    /// Returns a group for ids of other nodes, which is made and charged to the budget if it does
    /// not exist yet.
    pub(crate) fn other_group(&self, number: u64) -> Result<&Group, ObjectError> {
        if let Some(group) = self.table.get(number) {
            return Ok(group);
        }
        let part_bytes = self.table.part_bytes();
        self.account.pay_table(part_bytes).map_err(|_| self.out_of_memory(part_bytes))?;
        // `check` latches all existing groups, so no group may be added meanwhile.
        let _building = read(&self.building);
        let (made, group) = self.table.get_or_make(number);
        if !made {
            self.account.give_back(part_bytes);
        }
        Ok(group)
    }

    /// Creates objects with these bytes and consecutive ids. Returns the first id, or the id of
    /// zero bits, which names nothing, if there are no objects. None of the objects is visible
    /// before there is room for all, and up to 64 appear at once.
    ///
    /// # Errors
    /// As [`ObjectStore::create`]; none of the objects exists then.
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

    /// Creates objects in one group, all or none, as one step. Returns `None` if another caller
    /// guessed one of the ids and used it.
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

    /// Creates objects in whole empty groups, which are built before they become visible. Returns
    /// `None` as above.
    fn fill_groups(
        &self,
        first: ObjectId,
        objects: &[&[u8]],
    ) -> Result<Option<Position>, ObjectError> {
        let _building = read(&self.building);
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

    /// Inserts objects into a group that no other thread can see.
    fn build(&self, group: &Group, objects: &[&[u8]]) -> Result<(), ObjectError> {
        for (slot, bytes) in (0..).zip(objects) {
            let mut tries = 0;
            while let Err(no_room) = self.editor(group).insert(slot, Content::Bytes(bytes)) {
                self.make_room(no_room.0, &mut tries)?;
            }
        }
        Ok(())
    }

    /// Reserves `count` consecutive ids. Returns the first, as [`ObjectStore::create_consecutive`].
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

    /// Releases consecutive ids without objects.
    fn give_back(&self, first: ObjectId, count: usize) {
        let ids = first.to_bits()..first.to_bits() + to_u64(count);
        ids.clone().for_each(|id| self.unreserve_unheard(ObjectId::from_bits(id)));
        self.leave_row(first, to_u64(count));
    }

    /// Ends the ownership of the whole groups that consecutive ids were cut from.
    fn leave_row(&self, first: ObjectId, count: u64) {
        let first = self.table.own_number(self.group_of(first)).filter(|_| count > GROUP_SLOTS);
        let row = first.map(|first| first..first + count.div_ceil(GROUP_SLOTS));
        row.into_iter().flatten().for_each(|n| self.leave_group(n));
    }

    /// Reserves consecutive ids: in one group if it has so many, otherwise in whole groups, which
    /// the caller owns and has to leave.
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

    /// Takes consecutive ids from the maker's group for them, or from another group without
    /// objects.
    fn cut_span(&self, maker: &mut Maker, count: u64) -> Result<u64, ObjectError> {
        while maker.span.end - maker.span.start < count {
            let old = maker.span.clone();
            let n = self.claim_groups(1)?;
            maker.span = n * GROUP_SLOTS..(n + 1) * GROUP_SLOTS;
            // No object has the id 0.
            maker.span.start += u64::from(self.table.own(n) == 0);
            if old.end > 0 {
                self.leave_group(old.end / GROUP_SLOTS - 1);
            }
        }
        let start = maker.span.start;
        maker.span.start += count;
        Ok(start)
    }

    /// Takes ownership of `count` consecutive groups without objects and reserved ids, which are
    /// former groups that lost their objects, or new ones. Returns the first.
    fn claim_groups(&self, count: u64) -> Result<u64, ObjectError> {
        let mut refused = Vec::new();
        let found =
            std::iter::from_fn(|| self.unlist_empty(count)).take(GROUPS_TRIED).find(|row| {
                // Some ids may be reserved or have objects again, no object has the id 0, and ids
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
            // No object has the id 0, so the first group of all cannot be used whole.
            (first..first + count).for_each(|n| self.own(n));
            (first..first + count).for_each(|n| self.leave_group(n));
            first = self.fresh_groups(count)?;
        }
        (first..first + count).for_each(|n| self.own(n));
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

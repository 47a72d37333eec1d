//! Ids without objects: reserved ones, those of other nodes, and consecutive ones.

use std::sync::atomic::Ordering;

use terrace_sys::size::{to_u64, to_usize};

use crate::edit::Content;
use crate::error::ObjectError;
use crate::group::{GROUP_SLOTS, Group};
use crate::id::{LOCAL_MAX, ObjectId};
use crate::ids::{Maker, Purpose, lock};
use crate::log::Position;
use crate::record::Change;
use crate::store::{OBJECT_BYTES_MAX, ObjectStore, Trouble, signed};
use crate::table::{PART_BYTES, group_of, slot_of};

/// Groups that consecutive ids are cut from at a time.
const SPAN_GROUPS: u64 = 16;

impl ObjectStore {
    /// Reserves an id without an object: [`ObjectStore::create_reserved`] gives it one, and
    /// [`ObjectStore::release`] gives it back.
    ///
    /// # Errors
    /// [`ObjectError::OutOfIds`].
    pub fn reserve(&self) -> Result<ObjectId, ObjectError> {
        let mut maker = lock(self.maker());
        let current = maker.current(Purpose::Reserved);
        let reserved = self.in_free_slot(current, Purpose::Reserved, |group, id| {
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
        let wrong = ObjectError::NotReserved(id);
        let Some(group) = self.table.get(group_of(id)) else { return Err(wrong) };
        let latched = self.latch_to_change(group_of(id), group);
        let view = latched.group.view();
        if view.reserved_slots() >> slot_of(id) & 1 == 0 {
            return Err(wrong);
        }
        self.is_loggable()?;
        self.unreserve(group, &view, slot_of(id));
        self.list(group_of(id), group);
        let position = self.note(Change::Release { id });
        drop(latched);
        self.commit(position)
    }

    /// Gives an id back whose reservation is not in the log.
    fn unreserve_unheard(&self, id: ObjectId) {
        let Some(group) = self.table.get(group_of(id)) else { return };
        let latched = self.latch_to_change(group_of(id), group);
        self.unreserve(latched.group, &group.view(), slot_of(id));
        self.list(group_of(id), group);
        self.note(Change::Release { id });
    }

    /// Makes an object with a reserved id, or with an id of another node that no object has here:
    /// that is how objects come from elsewhere.
    ///
    /// # Errors
    /// [`ObjectError::NotReserved`]; [`ObjectError::OutOfMemory`], [`ObjectError::TooLong`].
    pub fn create_reserved(&self, id: ObjectId, bytes: &[u8]) -> Result<(), ObjectError> {
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(bytes.len()));
        }
        let foreign = id.node() != self.config.node;
        if id.to_bits() == 0 {
            return Err(ObjectError::NotReserved(id));
        }
        let group = if foreign {
            self.other_group(group_of(id))?
        } else {
            self.table.get(group_of(id)).ok_or(ObjectError::NotReserved(id))?
        };
        let mut tries = 0;
        loop {
            let latched = self.latch_to_change(group_of(id), group);
            let view = group.view();
            let reserved = view.is_marked(slot_of(id));
            if view.is_present(slot_of(id)) || !(reserved || foreign) {
                return Err(ObjectError::NotReserved(id));
            }
            self.is_loggable()?;
            let made = self.editor(latched.group).insert(slot_of(id), Content::Bytes(bytes));
            if let Err(no_room) = made {
                drop(latched);
                self.make_room(no_room.0, &mut tries)?;
                continue;
            }
            self.unreserve(group, &view, slot_of(id));
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
        self.account.pay_table(PART_BYTES).map_err(|_| self.out_of_memory(PART_BYTES))?;
        let (made, group) = self.table.get_or_make(number).inspect_err(|_| {
            self.account.give_back(PART_BYTES);
        })?;
        if !made {
            self.account.give_back(PART_BYTES);
        }
        Ok(group)
    }

    /// Makes objects of some bytes each with consecutive ids, all or none; the first id, or that of
    /// zero bits, which names nothing, when there are none.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    pub fn create_consecutive(&self, objects: &[&[u8]]) -> Result<ObjectId, ObjectError> {
        let (first, mut position) = {
            let mut maker = lock(self.maker());
            self.cut_ids(&mut maker, to_u64(objects.len()))?
        };
        let id = |n: usize| ObjectId::from_bits(first.to_bits() + to_u64(n));
        for (n, bytes) in objects.iter().enumerate() {
            match self.fill_cut(id(n), bytes) {
                Ok(filled) => position = filled,
                Err(error) => {
                    self.undo(objects.len(), n, id);
                    return Err(error);
                }
            }
        }
        self.commit(position).inspect_err(|_| self.undo(objects.len(), objects.len(), id))?;
        Ok(first)
    }

    /// Takes back what was made of consecutive objects, and the ids of the others. What somebody
    /// found and holds meanwhile stays.
    fn undo(&self, all: usize, made: usize, id: impl Fn(usize) -> ObjectId) {
        (0..made).for_each(|n| self.take_back(id(n)));
        (made..all).for_each(|n| self.unreserve_unheard(id(n)));
    }

    fn fill_cut(&self, id: ObjectId, bytes: &[u8]) -> Result<Position, ObjectError> {
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(bytes.len()));
        }
        let group = self.own_group(id.local() / GROUP_SLOTS);
        let mut tries = 0;
        loop {
            let latched = self.latch_to_change(group_of(id), group);
            self.is_loggable()?;
            let view = group.view();
            let filled = self.editor(latched.group).insert(slot_of(id), Content::Bytes(bytes));
            if let Err(no_room) = filled {
                drop(latched);
                self.make_room(no_room.0, &mut tries)?;
                continue;
            }
            self.unreserve(group, &view, slot_of(id));
            self.count_made(bytes.len());
            return Ok(self.note(Change::Put { id, bytes }));
        }
    }

    /// Reserves so many consecutive ids; the first, as [`ObjectStore::create_consecutive`].
    ///
    /// # Errors
    /// [`ObjectError::OutOfIds`].
    pub fn reserve_consecutive(&self, count: u64) -> Result<ObjectId, ObjectError> {
        let (first, position) = self.cut_ids(&mut lock(self.maker()), count)?;
        let id = |n| ObjectId::from_bits(first.to_bits() + to_u64(n));
        self.commit(position).inspect_err(|_| self.undo(to_usize(count), 0, id))?;
        Ok(first)
    }

    fn cut_ids(&self, maker: &mut Maker, count: u64) -> Result<(ObjectId, Position), ObjectError> {
        if count == 0 {
            return Ok((ObjectId::from_bits(0), 0));
        }
        if count > LOCAL_MAX {
            return Err(ObjectError::OutOfIds(self.table.own_groups() * GROUP_SLOTS));
        }
        if maker.span.end - maker.span.start < count {
            let groups = count.div_ceil(GROUP_SLOTS).max(SPAN_GROUPS);
            let groups = groups + u64::from(self.groups.load(Ordering::Relaxed) == 0);
            let first = self.fresh_groups(groups)?;
            (first..first + groups).for_each(|n| self.own(n));
            let old = std::mem::replace(
                &mut maker.span,
                first * GROUP_SLOTS..(first + groups) * GROUP_SLOTS,
            );
            self.leave(old.start, old.end);
            // Nothing has the id 0.
            let zero = self.table.own(first) == 0;
            maker.span.start += u64::from(zero);
        }
        let start = maker.span.start;
        maker.span.start += count;
        let (mut local, mut position) = (start, 0);
        while local < start + count {
            let group = self.own_group(local / GROUP_SLOTS);
            let id = ObjectId::new(self.config.node, local);
            let here = (GROUP_SLOTS - local % GROUP_SLOTS).min(start + count - local);
            let latched = self.latch_to_change(group_of(id), group);
            if let Err(error) = self.is_loggable() {
                drop(latched);
                let id = |n| ObjectId::new(self.config.node, start + to_u64(n));
                self.undo(to_usize(local - start), 0, id);
                return Err(error);
            }
            (0..64).skip(slot_of(id) as usize).take(to_usize(here)).for_each(|slot| {
                group.set_marked(slot, true);
            });
            self.count().reserved.fetch_add(signed(to_usize(here)), Ordering::Relaxed);
            position = self.note(Change::Reserve { id, count: here });
            local += here;
        }
        // Groups that were used up are listed when they lose objects.
        let (before, after) = (start / GROUP_SLOTS, maker.span.start / GROUP_SLOTS);
        (before..after).for_each(|n| self.leave_group(n));
        Ok((ObjectId::new(self.config.node, start), position))
    }

    /// Gives up the rest of a span.
    fn leave(&self, start: u64, end: u64) {
        (start / GROUP_SLOTS..end.div_ceil(GROUP_SLOTS)).for_each(|n| self.leave_group(n));
    }
}

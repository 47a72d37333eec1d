//! Which ids new objects get.
//!
//! Threads make objects in groups of their own. Objects of a length that comes again and again go
//! to groups of that length, where they take nothing beside their bytes; others share a group.
//! Groups that lost objects are listed by what is in them, and are used again before new ones.
//!
//! Locking order: a maker, then a group's latch, then a list.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use terrace_sys::size::{to_u64, to_usize};

use crate::edit::Content;
use crate::error::ObjectError;
use crate::group::{Flag, GROUP_SLOTS, Group, Kind, NEAR_BYTES_MAX, View};
use crate::id::{LOCAL_MAX, ObjectId};
use crate::store::{OBJECT_BYTES_MAX, ObjectStore, Trouble, place, signed};
use crate::table::{group_of, id_at, slot_of};

/// No group.
const NONE: u64 = u64::MAX;
/// A length gets groups of its own when it came so often.
const OFTEN: u8 = 16;
/// Other groups that are tried when there is no room to make the current one longer.
const GROUPS_TRIED: std::ops::Range<u32> = 0..2;
/// Groups that consecutive ids are cut from at a time.
const SPAN_GROUPS: u64 = 16;

/// Where some threads make their objects. Groups are counted among the store's own.
pub(crate) struct Maker {
    by_len: Box<[u64]>,
    seen: Box<[u8]>,
    mixed: u64,
    remote: u64,
    reserved: u64,
    /// Local ids that no object had yet, for consecutive ones.
    span: std::ops::Range<u64>,
}

/// What a maker wants a group for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Len(usize),
    Mixed,
    Remote,
    Reserved,
}

impl Purpose {
    /// The list of groups that suit it best.
    fn list(self) -> usize {
        match self {
            Self::Len(len) => len,
            Self::Mixed | Self::Reserved => MIXED_LIST,
            Self::Remote => REMOTE_LIST,
        }
    }
}

impl Maker {
    pub(crate) fn new() -> Self {
        Self {
            by_len: vec![NONE; NEAR_BYTES_MAX + 1].into(),
            seen: vec![0; NEAR_BYTES_MAX + 1].into(),
            mixed: NONE,
            remote: NONE,
            reserved: NONE,
            span: 0..0,
        }
    }

    fn purpose(&mut self, len: usize) -> Purpose {
        if len > NEAR_BYTES_MAX {
            return Purpose::Remote;
        }
        let seen = &mut self.seen[len];
        *seen = seen.saturating_add(1);
        if len > 0 && *seen >= OFTEN { Purpose::Len(len) } else { Purpose::Mixed }
    }

    fn current(&mut self, purpose: Purpose) -> &mut u64 {
        match purpose {
            Purpose::Len(len) => &mut self.by_len[len],
            Purpose::Mixed => &mut self.mixed,
            Purpose::Remote => &mut self.remote,
            Purpose::Reserved => &mut self.reserved,
        }
    }
}

/// Lists of the store's own groups that have free ids and no maker, by what is in them.
pub(crate) struct FreeGroups {
    lists: Vec<List>,
}

#[derive(Default)]
struct List {
    groups: Mutex<Vec<u64>>,
    len: AtomicUsize,
}

const EMPTY_LIST: usize = 0;
const MIXED_LIST: usize = NEAR_BYTES_MAX + 1;
const REMOTE_LIST: usize = NEAR_BYTES_MAX + 2;

fn list_of(view: &View) -> usize {
    match view.word.kind() {
        _ if view.present == 0 => EMPTY_LIST,
        Kind::Uniform(len) => len,
        Kind::Mixed => MIXED_LIST,
        Kind::Remote => REMOTE_LIST,
    }
}

impl FreeGroups {
    pub(crate) fn new() -> Self {
        Self { lists: (0..=REMOTE_LIST).map(|_| List::default()).collect() }
    }

    /// Whether there was memory for it.
    fn push(&self, list: usize, group: u64) -> bool {
        let list = &self.lists[list];
        let mut groups = lock(&list.groups);
        let room = groups.try_reserve(1).is_ok();
        if room {
            groups.push(group);
            list.len.store(groups.len(), Ordering::Relaxed);
        }
        room
    }

    fn pop(&self, list: usize) -> Option<u64> {
        let list = &self.lists[list];
        if list.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut groups = lock(&list.groups);
        let group = groups.pop();
        list.len.store(groups.len(), Ordering::Relaxed);
        group
    }

    fn longest(&self) -> usize {
        let len = |list: &usize| self.lists[*list].len.load(Ordering::Relaxed);
        (0..self.lists.len()).max_by_key(len).unwrap_or(EMPTY_LIST)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ObjectStore {
    /// Makes an object of `len` zeros.
    ///
    /// # Errors
    /// [`ObjectError::OutOfMemory`], [`ObjectError::OutOfIds`], [`ObjectError::TooLong`].
    pub fn create(&self, len: usize) -> Result<ObjectId, ObjectError> {
        self.create_as(Content::Zeros(len))
    }

    /// Makes an object of some bytes.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    pub fn create_with(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.create_as(Content::Bytes(bytes))
    }

    fn create_as(&self, content: Content<'_>) -> Result<ObjectId, ObjectError> {
        let mut tries = 0;
        loop {
            // The maker is free again before room is made.
            let made = self.create_in(&mut lock(self.maker()), content);
            match made {
                Ok(id) => return Ok(id),
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::NoRoom(granules)) => self.make_room(granules, &mut tries)?,
            }
        }
    }

    fn maker(&self) -> &Mutex<Maker> {
        &self.makers[place() % self.makers.len()]
    }

    fn create_in(&self, maker: &mut Maker, content: Content<'_>) -> Result<ObjectId, Trouble> {
        let len = content.len();
        if len > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(len).into());
        }
        let purpose = maker.purpose(len);
        let id = self.in_free_slot(maker.current(purpose), purpose, |group, slot| {
            self.editor(group).insert(slot, content)?;
            Ok(())
        })?;
        self.count_made(len);
        Ok(id)
    }

    fn count_made(&self, len: usize) {
        self.count().objects.fetch_add(1, Ordering::Relaxed);
        self.count().bytes.fetch_add(signed(len), Ordering::Relaxed);
    }

    /// Does something with a free slot of a maker's group, which is latched.
    fn in_free_slot(
        &self,
        current: &mut u64,
        purpose: Purpose,
        work: impl Fn(&Group, u32) -> Result<(), Trouble>,
    ) -> Result<ObjectId, Trouble> {
        let mut others = GROUPS_TRIED;
        loop {
            if *current == NONE {
                *current = self.claim(purpose)?;
            }
            let number = self.table.own(*current);
            let group = self.own_group(*current);
            let latched = self.latch(group);
            let Some(slot) = self.free_slot(number, &group.view()) else {
                *current = NONE;
                disown(group);
                continue;
            };
            if let Err(trouble) = work(latched.group, slot) {
                drop(latched);
                // Groups that lost an object may have its room still.
                let other = others.next().and_then(|_| self.unlist(purpose.list()));
                let (Trouble::NoRoom(_), Some(other)) = (&trouble, other) else {
                    return Err(trouble);
                };
                self.leave_group(std::mem::replace(current, other));
                continue;
            }
            if self.free_slot(number, &group.view()).is_none() {
                *current = NONE;
                disown(group);
            }
            return Ok(id_at(number, slot));
        }
    }

    fn own_group(&self, n: u64) -> &Group {
        let group = self.table.get(self.table.own(n));
        group.unwrap_or_else(|| unreachable!("own groups are below the table's end"))
    }

    /// The lowest free slot of a group. Nothing has the id 0.
    fn free_slot(&self, number: u64, view: &View) -> Option<u32> {
        let free = view.free_slots() & if number == 0 { !1 } else { u64::MAX };
        (free != 0).then(|| free.trailing_zeros())
    }

    /// Finds a group with free slots and makes it the caller's.
    fn claim(&self, purpose: Purpose) -> Result<u64, ObjectError> {
        let listed = self.unlist(purpose.list()).or_else(|| self.unlist(EMPTY_LIST));
        if let Some(group) = listed.or_else(|| self.unlist_if_sparse()) {
            return Ok(group);
        }
        let fresh = self.fresh_groups(1);
        if let Ok(group) = fresh {
            self.own(group);
            return fresh;
        }
        // Any group with free ids is better than none.
        loop {
            let longest = self.free.longest();
            match self.unlist(longest) {
                Some(group) => return Ok(group),
                None if self.free.lists[longest].len.load(Ordering::Relaxed) == 0 => return fresh,
                None => {}
            }
        }
    }

    /// New groups, one after the other, paid for.
    fn fresh_groups(&self, count: u64) -> Result<u64, ObjectError> {
        let table_bytes = count.saturating_mul(to_u64(size_of::<Group>()));
        self.account.pay_table(table_bytes).map_err(|_| self.out_of_memory(table_bytes))?;
        let more = |groups: u64| Some(groups + count).filter(|it| *it <= self.table.own_groups());
        let first = self.groups.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
        first.map_err(|_| {
            self.account.give_back(table_bytes);
            ObjectError::OutOfIds(self.table.own_groups() * GROUP_SLOTS)
        })
    }

    fn own(&self, n: u64) {
        let latched = self.latch(self.own_group(n));
        let word = latched.group.view().word;
        latched.group.set_word(word.with(Flag::Owned, true).with(Flag::Listed, false));
    }

    /// Takes a group with free slots from a list and makes it the caller's.
    fn unlist(&self, list: usize) -> Option<u64> {
        while let Some(n) = self.free.pop(list) {
            let latched = self.latch(self.own_group(n));
            let view = latched.group.view();
            let word = view.word.with(Flag::Listed, false);
            if self.free_slot(self.table.own(n), &view).is_some() {
                latched.group.set_word(word.with(Flag::Owned, true));
                return Some(n);
            }
            latched.group.set_word(word);
        }
        None
    }

    /// When fewer than half of the ids given out are used: any group with free ones, so that the
    /// table stays small, though its objects will be of several lengths.
    fn unlist_if_sparse(&self) -> Option<u64> {
        let ids = self.groups.load(Ordering::Relaxed) * GROUP_SLOTS;
        let used: i64 = self
            .counters
            .iter()
            .map(|it| it.objects.load(Ordering::Relaxed) + it.reserved.load(Ordering::Relaxed))
            .sum();
        let used = u64::try_from(used).unwrap_or(0);
        let sparse = ids > SPARSE_IDS && used < ids / 2;
        sparse.then(|| self.unlist(self.free.longest())).flatten()
    }

    /// Lists a latched group that has free slots now, unless somebody makes objects in it.
    pub(crate) fn list(&self, number: u64, group: &Group) {
        let view = group.view();
        let Some(n) = self.table.own_number(number) else { return };
        let free = self.free_slot(number, &view).is_some();
        if !free || view.word.has(Flag::Owned) || view.word.has(Flag::Listed) {
            return;
        }
        if self.free.push(list_of(&view), n) {
            group.set_word(view.word.with(Flag::Listed, true));
        }
    }

    /// Reserves an id without an object: [`ObjectStore::create_reserved`] gives it one, and
    /// [`ObjectStore::release`] gives it back.
    ///
    /// # Errors
    /// [`ObjectError::OutOfIds`].
    pub fn reserve(&self) -> Result<ObjectId, ObjectError> {
        let mut maker = lock(self.maker());
        let current = maker.current(Purpose::Reserved);
        let reserved = self.in_free_slot(current, Purpose::Reserved, |group, slot| {
            group.set_marked(slot, true);
            Ok(())
        });
        match reserved {
            Ok(id) => {
                self.count().reserved.fetch_add(1, Ordering::Relaxed);
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
        let latched = self.latch(group);
        let view = latched.group.view();
        if view.is_present(slot_of(id)) || !view.is_marked(slot_of(id)) {
            return Err(wrong);
        }
        group.set_marked(slot_of(id), false);
        self.list(group_of(id), group);
        self.count().reserved.fetch_sub(1, Ordering::Relaxed);
        Ok(())
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
            self.table.get_or_make(group_of(id))?
        } else {
            self.table.get(group_of(id)).ok_or(ObjectError::NotReserved(id))?
        };
        let mut tries = 0;
        loop {
            let latched = self.latch(group);
            let view = group.view();
            let reserved = view.is_marked(slot_of(id));
            if view.is_present(slot_of(id)) || !(reserved || foreign) {
                return Err(ObjectError::NotReserved(id));
            }
            let made = self.editor(latched.group).insert(slot_of(id), Content::Bytes(bytes));
            if let Err(no_room) = made {
                drop(latched);
                self.make_room(no_room.0, &mut tries)?;
                continue;
            }
            group.set_marked(slot_of(id), false);
            self.count().reserved.fetch_sub(i64::from(reserved), Ordering::Relaxed);
            self.count_made(bytes.len());
            return Ok(());
        }
    }

    /// Makes objects of some bytes each with consecutive ids, all or none; the first id.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    pub fn create_consecutive(&self, objects: &[&[u8]]) -> Result<ObjectId, ObjectError> {
        let mut tries = 0;
        let first = {
            let mut maker = lock(self.maker());
            self.cut(&mut maker, to_u64(objects.len()))?
        };
        let id = |n: usize| ObjectId::from_bits(first.to_bits() + to_u64(n));
        for (n, bytes) in objects.iter().enumerate() {
            loop {
                match self.fill_cut(id(n), bytes) {
                    Ok(()) => break,
                    Err(Trouble::NoRoom(granules)) => {
                        let room = self.make_room(granules, &mut tries);
                        let Err(error) = room else { continue };
                        self.undo(objects.len(), n, id);
                        return Err(error);
                    }
                    Err(Trouble::Error(error)) => {
                        self.undo(objects.len(), n, id);
                        return Err(error);
                    }
                }
            }
        }
        Ok(first)
    }

    /// Takes back what was made of consecutive objects, and the ids of the others. What somebody
    /// found and holds meanwhile stays.
    fn undo(&self, all: usize, made: usize, id: impl Fn(usize) -> ObjectId) {
        for n in 0..all {
            let undone = if n < made { self.remove(id(n)) } else { self.release(id(n)) };
            debug_assert!(undone.is_ok(), "{undone:?}");
        }
    }

    fn fill_cut(&self, id: ObjectId, bytes: &[u8]) -> Result<(), Trouble> {
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(bytes.len()).into());
        }
        let latched = self.latch(self.own_group(to_u64(to_usize(id.local() / GROUP_SLOTS))));
        self.editor(latched.group).insert(slot_of(id), Content::Bytes(bytes))?;
        latched.group.set_marked(slot_of(id), false);
        self.count().reserved.fetch_sub(1, Ordering::Relaxed);
        self.count_made(bytes.len());
        Ok(())
    }

    /// Reserves so many consecutive ids; the first.
    ///
    /// # Errors
    /// [`ObjectError::OutOfIds`].
    pub fn reserve_consecutive(&self, count: u64) -> Result<ObjectId, ObjectError> {
        self.cut(&mut lock(self.maker()), count)
    }

    fn cut(&self, maker: &mut Maker, count: u64) -> Result<ObjectId, ObjectError> {
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
        for local in start..start + count {
            let latched = self.latch(self.own_group(local / GROUP_SLOTS));
            latched.group.set_marked(slot_of(ObjectId::from_bits(local)), true);
        }
        self.count()
            .reserved
            .fetch_add(i64::try_from(count).unwrap_or(i64::MAX), Ordering::Relaxed);
        // Groups that were used up are listed when they lose objects.
        let (before, after) = (start / GROUP_SLOTS, maker.span.start / GROUP_SLOTS);
        (before..after).for_each(|n| self.leave_group(n));
        Ok(ObjectId::new(self.config.node, start))
    }

    /// Gives up the rest of a span.
    fn leave(&self, start: u64, end: u64) {
        (start / GROUP_SLOTS..end.div_ceil(GROUP_SLOTS)).for_each(|n| self.leave_group(n));
    }

    fn leave_group(&self, n: u64) {
        let latched = self.latch(self.own_group(n));
        disown(latched.group);
        self.list(self.table.own(n), latched.group);
    }
}

/// Fewer ids than this are not worth saving.
const SPARSE_IDS: u64 = if cfg!(miri) { 64 * 8 } else { 64 * 1024 };

/// Nobody makes objects in a latched group any more.
fn disown(group: &Group) {
    group.set_word(group.view().word.with(Flag::Owned, false));
}

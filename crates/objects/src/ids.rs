//! Ids of new objects, and the groups that they are taken from.
//!
//! Threads create objects in groups of their own. Objects of a length that recurs go to groups of
//! that length, where they take nothing beside their bytes; others share a group. Groups that lost
//! objects are listed by their contents, and are used again before new ones.
//!
//! Locking order: a maker, then a group's latch, then a list.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;

use crate::error::ObjectError;
use crate::group::{Far, Flag, GROUP_SLOTS, Group, Kind, NEAR_BYTES_MAX, View};
use crate::group_edit::Content;
use crate::id::ObjectId;
use crate::log::Position;
use crate::record::Change;
use crate::store::{ObjectStore, Trouble, place, signed};
use crate::table::slot_of;

/// Stands for no group.
const NONE: u64 = u64::MAX;
/// Number of objects of one length from which on a maker gives that length groups of its own.
const OFTEN: u8 = 16;
/// Groups in a pair of cache lines, which the processor fetches together: two threads that create
/// objects in such groups are slower than one.
const GROUPS_TOGETHER: u64 = if cfg!(loom) { 1 } else { 128 / size_of::<Group>() as u64 };
/// Other groups tried when there is no room to extend the current one.
const GROUPS_TRIED: std::ops::Range<u32> = 0..2;

/// Current groups of some threads that create objects. Groups are numbered among the store's own.
#[repr(align(128))]
pub(crate) struct Maker {
    by_len: Box<[u64]>,
    seen: Box<[u8]>,
    mixed: u64,
    remote: u64,
    reserved: u64,
    /// New groups without an owner, which share the cache lines of one of this maker's.
    spare: std::ops::Range<u64>,
    /// Unused local ids of one group, for objects with consecutive ids.
    pub(crate) span: std::ops::Range<u64>,
}

/// Purpose for which a maker needs a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Len(usize),
    Mixed,
    Remote,
    Reserved,
}

impl Purpose {
    /// Returns the list of the groups that suit the purpose best.
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
            spare: 0..0,
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

/// Lists of the store's own groups with free ids and without a maker, by their contents.
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

/// Returns the flag that tells that a group is in a list. A group is in at most one of the lists
/// other than that of empty groups, and its contents are checked again when it is taken out.
fn listed_as(list: usize) -> Flag {
    if list == EMPTY_LIST { Flag::Emptied } else { Flag::Listed }
}

impl FreeGroups {
    pub(crate) fn new() -> Self {
        Self { lists: (0..=REMOTE_LIST).map(|_| List::default()).collect() }
    }

    /// Adds a group to a list. Returns false if there is no memory for that.
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

    /// Takes `count` consecutive groups out of the list of empty ones, and returns the first.
    fn take_empty(&self, count: u64) -> Option<u64> {
        if count == 1 {
            return self.pop(EMPTY_LIST);
        }
        let list = &self.lists[EMPTY_LIST];
        if to_u64(list.len.load(Ordering::Relaxed)) < count {
            return None;
        }
        let (mut groups, count) = (lock(&list.groups), to_usize(count));
        groups.sort_unstable();
        let row = |at: &usize| groups[at + count - 1] - groups[*at] == to_u64(count) - 1;
        let at = (0..(groups.len() + 1).saturating_sub(count)).find(row)?;
        let first = groups[at];
        groups.drain(at..at + count);
        list.len.store(groups.len(), Ordering::Relaxed);
        Some(first)
    }

    fn longest(&self) -> usize {
        let len = |list: &usize| self.lists[*list].len.load(Ordering::Relaxed);
        (0..self.lists.len()).max_by_key(len).unwrap_or(EMPTY_LIST)
    }
}

impl ObjectStore {
    /// Creates an object of `len` zeros.
    ///
    /// # Errors
    /// [`ObjectError::OutOfMemory`], [`ObjectError::OutOfIds`], [`ObjectError::TooLong`].
    pub fn create(&self, len: usize) -> Result<ObjectId, ObjectError> {
        self.create_as(Content::Zeros(len))
    }

    /// Creates an object with these bytes.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    pub fn create_with(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.create_as(Content::Bytes(bytes))
    }

    fn create_as(&self, content: Content<'_>) -> Result<ObjectId, ObjectError> {
        let (id, position) = self.create_unwaited(content)?;
        // On failure the object is removed, as it is not in the log and its id was not returned.
        self.commit(position).map(|()| id).inspect_err(|_| self.take_back(id))
    }

    /// Creates an object without waiting for the log.
    fn create_unwaited(&self, content: Content<'_>) -> Result<(ObjectId, Position), ObjectError> {
        self.is_here()?;
        let placed = self.place_ahead(content)?;
        let mut tries = 0;
        loop {
            // The maker is unlocked before room is made.
            let mut maker = lock(self.maker());
            let made = self.create_in(&mut maker, content, placed.far);
            made.iter().for_each(|_| placed.keep());
            drop(maker);
            match made {
                Ok(made) => return Ok(made),
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::NoRoom(granules)) => self.make_room(granules, &mut tries)?,
            }
        }
    }

    /// Removes an object whose id was not returned, unless another thread found and holds it.
    pub(crate) fn take_back(&self, id: ObjectId) {
        let Some(group) = self.table.get(self.group_of(id)) else { return };
        let latched = self.latch_to_change(self.group_of(id), group);
        let view = group.view();
        let is_own = view.is_present(slot_of(id)) && self.table.is_current(id);
        if !is_own || view.is_marked(slot_of(id)) {
            return;
        }
        let editor = self.editor(latched.group);
        let len = editor.find(slot_of(id)).map_or(0, |found| found.len);
        editor.remove(slot_of(id));
        self.end_id(self.group_of(id), group, slot_of(id));
        self.list(self.group_of(id), group);
        self.count_removed(len);
        // A failed log does not record this; a log that was begun since has the object.
        self.note(Change::Remove { id });
    }

    pub(crate) fn maker(&self) -> &Mutex<Maker> {
        &self.makers[place() % self.makers.len()]
    }

    fn create_in(
        &self,
        maker: &mut Maker,
        content: Content<'_>,
        placed: Option<Far>,
    ) -> Result<(ObjectId, Position), Trouble> {
        let len = content.len();
        let purpose = maker.purpose(len);
        self.in_free_slot(maker, purpose, |group, id| {
            self.is_loggable()?;
            match placed {
                Some(far) => self.editor(group).insert_far(slot_of(id), far)?,
                None => self.editor(group).insert(slot_of(id), content)?,
            }
            self.count_made(len);
            Ok(self.note(content.change(id)))
        })
    }

    pub(crate) fn count_made(&self, len: usize) {
        self.count().objects.fetch_add(1, Ordering::Relaxed);
        self.count().bytes.fetch_add(signed(len), Ordering::Relaxed);
    }

    /// Runs `work` on a free slot of a maker's group, which is latched.
    pub(crate) fn in_free_slot(
        &self,
        maker: &mut Maker,
        purpose: Purpose,
        work: impl Fn(&Group, ObjectId) -> Result<Position, Trouble>,
    ) -> Result<(ObjectId, Position), Trouble> {
        let mut others = GROUPS_TRIED;
        loop {
            if *maker.current(purpose) == NONE {
                *maker.current(purpose) = self.claim(maker, purpose)?;
            }
            let current = maker.current(purpose);
            let number = self.table.own(*current);
            let group = self.own_group(*current);
            let latched = self.latch_to_change(number, group);
            let Some(slot) = self.free_slot(number, &group.view()) else {
                *current = NONE;
                disown(group);
                continue;
            };
            let id = self.id_at(number, slot);
            let position = match work(latched.group, id) {
                Ok(position) => position,
                Err(trouble) => {
                    drop(latched);
                    let Trouble::NoRoom(_) = trouble else { return Err(trouble) };
                    // Groups that lost objects may still have room in their runs.
                    let other = others.next().and_then(|_| self.unlist(purpose.list()));
                    let Some(other) = other else { return Err(trouble) };
                    self.leave_group(std::mem::replace(current, other));
                    continue;
                }
            };
            if self.free_slot(number, &group.view()).is_none() {
                *current = NONE;
                disown(group);
            }
            return Ok((id, position));
        }
    }

    pub(crate) fn own_group(&self, n: u64) -> &Group {
        let group = self.table.get(self.table.own(n));
        group.unwrap_or_else(|| unreachable!("own groups are below the table's end"))
    }

    /// Returns the lowest free slot of a group. No object has the id 0.
    fn free_slot(&self, number: u64, view: &View) -> Option<u32> {
        let free = view.free_slots() & if number == 0 { !1 } else { u64::MAX };
        (free != 0).then(|| free.trailing_zeros())
    }

    /// Takes ownership of a group with free slots.
    fn claim(&self, maker: &mut Maker, purpose: Purpose) -> Result<u64, ObjectError> {
        let listed = self.unlist(purpose.list()).or_else(|| self.unlist(EMPTY_LIST));
        if let Some(group) = listed.or_else(|| self.unlist_if_sparse()) {
            return Ok(group);
        }
        let fresh = self.fresh_group(maker);
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

    /// Returns a new group, in cache lines in which no other thread creates objects.
    fn fresh_group(&self, maker: &mut Maker) -> Result<u64, ObjectError> {
        if maker.spare.is_empty() {
            let line = GROUPS_TOGETHER - self.groups.load(Ordering::Relaxed) % GROUPS_TOGETHER;
            let first = self.fresh_groups(line);
            maker.spare = match first {
                Ok(first) => first..first + line,
                // There may be room for one.
                Err(_) => self.fresh_groups(1).map(|first| first..first + 1)?,
            };
        }
        maker.spare.next().ok_or_else(|| self.out_of_ids())
    }

    /// Makes consecutive new groups and charges them to the budget. Returns the first.
    pub(crate) fn fresh_groups(&self, count: u64) -> Result<u64, ObjectError> {
        let table_bytes = count.saturating_mul(self.table.group_bytes());
        self.account.pay_table(table_bytes).map_err(|_| self.out_of_memory(table_bytes))?;
        let more = |groups: u64| Some(groups + count).filter(|it| *it <= self.table.own_groups());
        let first = self.groups.fetch_update(Ordering::SeqCst, Ordering::Relaxed, more);
        first.map_err(|_| {
            self.account.give_back(table_bytes);
            self.out_of_ids()
        })
    }

    pub(crate) fn own(&self, n: u64) {
        let latched = self.latch(self.own_group(n));
        let word = latched.group.view().word;
        latched.group.set_word(word.with(Flag::Owned, true));
    }

    /// Takes a group with free slots from a list, and takes ownership of it.
    fn unlist(&self, list: usize) -> Option<u64> {
        while let Some(n) = self.free.pop(list) {
            let latched = self.latch(self.own_group(n));
            let view = latched.group.view();
            let word = view.word.with(listed_as(list), false);
            latched.group.set_word(word);
            if word.has(Flag::Owned) {
                continue;
            }
            if list_of(&view) != list {
                // The group has lost its objects, or got others, since it was listed.
                self.list(self.table.own(n), latched.group);
            } else if self.free_slot(self.table.own(n), &view).is_some() {
                latched.group.set_word(word.with(Flag::Owned, true));
                return Some(n);
            }
        }
        None
    }

    /// Takes `count` consecutive groups out of the list of empty ones, and takes ownership of those
    /// that have no owner. Returns these.
    pub(crate) fn unlist_empty(&self, count: u64) -> Option<Vec<u64>> {
        let first = self.free.take_empty(count)?;
        let take = |n: &u64| {
            let latched = self.latch(self.own_group(*n));
            let word = latched.group.view().word.with(Flag::Emptied, false);
            latched.group.set_word(word.with(Flag::Owned, true));
            !word.has(Flag::Owned)
        };
        Some((first..first + count).filter(take).collect())
    }

    pub(crate) fn out_of_ids(&self) -> ObjectError {
        ObjectError::OutOfIds(self.table.own_groups() * GROUP_SLOTS)
    }

    /// Returns any group with free ids if fewer than half of the ids given out are used: this keeps
    /// the table small, though the objects of the group will be of several lengths.
    fn unlist_if_sparse(&self) -> Option<u64> {
        let ids = self.groups.load(Ordering::Relaxed) * GROUP_SLOTS;
        let used: i64 = self
            .counters
            .iter()
            .map(|it| {
                let [objects, reserved, retired] = [&it.objects, &it.reserved, &it.retired]
                    .map(|count| count.load(Ordering::Relaxed));
                objects + reserved + retired
            })
            .sum();
        let used = u64::try_from(used).unwrap_or(0);
        let sparse = ids > SPARSE_IDS && used < ids / 2;
        sparse.then(|| self.unlist(self.free.longest())).flatten()
    }

    /// Lists a latched group if it has free slots and no owner.
    pub(crate) fn list(&self, number: u64, group: &Group) {
        let view = group.view();
        let Some(n) = self.table.own_number(number) else { return };
        let free = self.free_slot(number, &view).is_some();
        let list = list_of(&view);
        if !free || view.word.has(Flag::Owned) || view.word.has(listed_as(list)) {
            return;
        }
        if self.free.push(list, n) {
            group.set_word(view.word.with(listed_as(list), true));
        }
    }

    /// Creates objects with these bytes, all or none. Returns their ids, which need not be
    /// consecutive.
    ///
    /// # Errors
    /// As [`ObjectStore::create`].
    pub fn create_many(&self, objects: &[&[u8]]) -> Result<Vec<ObjectId>, ObjectError> {
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
        self.commit(position).inspect_err(all)?;
        Ok(ids)
    }

    pub(crate) fn leave_group(&self, n: u64) {
        let latched = self.latch(self.own_group(n));
        disown(latched.group);
        self.list(self.table.own(n), latched.group);
    }
}

/// Least number of ids given out for which unused ids are worth saving.
const SPARSE_IDS: u64 = if cfg!(miri) { 64 * 8 } else { 64 * 1024 };

/// Ends the ownership of a latched group.
fn disown(group: &Group) {
    group.set_word(group.view().word.with(Flag::Owned, false));
}

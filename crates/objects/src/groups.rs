//! Groups of a store: their table, the memory of their objects, their latches, and the lists of
//! those with free ids.
//!
//! Code that changes a group's contents latches it by the journal (`Journal::latch`, in the layer
//! above), which first copies the group for a dump in progress. [`Groups::latch`] is for changes of
//! a group's owner, for moves of its memory and for locks. The owner of a group is the maker that
//! creates objects in it (`ids`).
//!
//! Locking order: a group's latch, then a list.

pub(crate) mod bitmap;
pub(crate) mod content;
pub(crate) mod counts;
mod draft;
pub(crate) mod edit;
pub(crate) mod free;
pub(crate) mod group;
pub(crate) mod header;
pub(crate) mod memory;
pub(crate) mod run;
mod scratch;
pub(crate) mod slabs;
pub(crate) mod table;
pub(crate) mod word;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use terrace_latch::ParkingLot;
use terrace_region::Backing;
use terrace_sys::size::to_u64;
use terrace_sys::sync::{read, write};

use crate::account::{Account, Borrowed};
use crate::config::ObjectConfig;
use crate::error::ObjectError;
use crate::id::ObjectId;
use crate::threads::{place, places};
use counts::Counts;
use edit::Editor;
use free::{EMPTY_LIST, FreeGroups, list_of, listed_as};
use group::{GROUP_SLOTS, Group, Latched, View};
use memory::Memory;
use run::SLAB_BYTES;
use slabs::{Slabs, Supply};
use table::{Slot, Table};
use word::Flag;

/// All groups of a store: their table, the slabs with their objects, and their latches.
pub(crate) struct Groups {
    table: Table,
    slabs: Slabs,
    lot: ParkingLot,
    account: Arc<Account>,
    counts: Counts,
    free: FreeGroups,
    /// Number of groups made for the store's own ids.
    made: AtomicU64,
    /// Held shared by threads that build groups no other thread can see yet.
    building: RwLock<()>,
    /// Maximum bytes of all slabs.
    limit_bytes: u64,
}

impl Groups {
    /// Makes an empty table and the slabs over the configured memory.
    pub(crate) fn new(config: &ObjectConfig) -> Result<Self, ObjectError> {
        let memory = Memory::new(&config.memory, config.huge_pages)?;
        let in_region = matches!(config.memory, Backing::Region { .. });
        let account = Account::new(config.ledger.as_ref(), &config.name, !in_region);
        let account = Arc::new(account);
        // A store has at most as many objects as bytes, except for empty objects and ids reserved
        // ahead.
        let groups = (to_u64(memory.len()) / GROUP_SLOTS).max(GROUPS_MIN);
        let table = Table::new(config, groups)?;
        Ok(Self {
            table,
            slabs: Slabs::new(memory, places(), Arc::clone(&account))?,
            lot: ParkingLot::new(),
            account,
            counts: Counts::new(places()),
            free: FreeGroups::new(),
            made: AtomicU64::new(0),
            building: RwLock::default(),
            limit_bytes: to_u64(config.memory.bytes() / SLAB_BYTES * SLAB_BYTES),
        })
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    #[inline]
    pub(crate) fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    #[inline]
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the slot of an id, with or without an object. Fails if its group does not exist.
    #[inline(always)]
    pub(crate) fn find(&self, id: ObjectId) -> Result<Slot<'_>, ObjectError> {
        self.table.find(id).ok_or(ObjectError::NotFound(id))
    }

    /// Latches a group, and waits until other threads have released it.
    #[inline]
    pub(crate) fn latch<'a>(&'a self, group: &'a Group) -> Latched<'a> {
        group.latch(&self.lot)
    }

    /// Latches a group, unless another thread holds it.
    #[inline]
    pub(crate) fn try_latch<'a>(&'a self, group: &'a Group) -> Option<Latched<'a>> {
        group.try_latch(&self.lot)
    }

    /// Returns an editor of a group that the caller has latched.
    #[inline]
    pub(crate) fn editor<'a>(&'a self, group: &'a Group) -> Editor<'a> {
        Editor::new(&self.slabs, group, place(), Supply::All)
    }

    /// Returns an editor that allocates from slabs in use only, as a move must not add to them.
    pub(crate) fn mover<'a>(&'a self, group: &'a Group) -> Editor<'a> {
        Editor::new(&self.slabs, group, place(), Supply::Held)
    }

    /// Number of groups made for the store's own ids.
    #[inline]
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the numbers of all groups that were ever used.
    pub(crate) fn numbers(&self) -> Vec<Range<u64>> {
        self.table.numbers(self.made.load(Ordering::SeqCst))
    }

    /// Calls `work` with every group that was ever used.
    pub(crate) fn each<'a>(&'a self, mut work: impl FnMut(u64, &'a Group)) {
        for number in self.numbers().into_iter().flatten() {
            if let Some(group) = self.table.get(number) {
                work(number, group);
            }
        }
    }

    /// Returns a consistent view of a group, not one of a change in progress.
    pub(crate) fn settled(&self, group: &Group) -> View {
        let look = || {
            let seen = group.version()?;
            let view = group.view();
            group.is_still(seen).then_some(view)
        };
        look().unwrap_or_else(|| self.latch(group).group().view())
    }

    /// True if a latched group has objects, reserved ids or generations.
    pub(crate) fn is_used(&self, number: u64, view: &View) -> bool {
        let used = |generations: [u8; 64]| generations != [0; 64];
        view.present | view.marked != 0 || self.table.generations_of(number).is_some_and(used)
    }

    pub(crate) fn out_of_memory(&self, asked: u64) -> ObjectError {
        let (held, limit) = (self.slabs.held_bytes(), self.limit_bytes);
        ObjectError::OutOfMemory { asked, held, limit }
    }

    pub(crate) fn out_of_ids(&self) -> ObjectError {
        ObjectError::OutOfIds(self.table.own_groups() * GROUP_SLOTS)
    }

    /// Charges bytes to the budget until the returned value is dropped.
    pub(crate) fn borrow(&self, bytes: u64) -> Result<Borrowed<'_>, ObjectError> {
        self.account.borrow(bytes).map_err(|_| self.out_of_memory(bytes))
    }
}

/// Least number of groups that a store has addresses for: 4 Mi ids, 2 MiB of addresses.
const GROUPS_MIN: u64 = if cfg!(miri) { 256 } else { 1 << 16 };

/// New groups.
impl Groups {
    /// Registers this thread as a builder of groups that no other thread can see yet, until the
    /// returned value is dropped.
    pub(crate) fn build(&self) -> RwLockReadGuard<'_, ()> {
        read(&self.building)
    }

    /// Waits until no thread builds groups, and blocks [`Groups::build`] until the returned value
    /// is dropped.
    pub(crate) fn pause_building(&self) -> RwLockWriteGuard<'_, ()> {
        write(&self.building)
    }

    /// Makes `count` consecutive new groups for the store's own ids and charges them to the budget.
    /// Returns the index of the first among the store's own groups.
    pub(crate) fn fresh(&self, count: u64) -> Result<u64, ObjectError> {
        let table_bytes = count.saturating_mul(self.table.group_bytes());
        self.account.pay_table(table_bytes).map_err(|_| self.out_of_memory(table_bytes))?;
        let more = |groups: u64| Some(groups + count).filter(|it| *it <= self.table.own_groups());
        let first = self.made.fetch_update(Ordering::SeqCst, Ordering::Relaxed, more);
        first.map_err(|_| {
            self.account.give_back(table_bytes);
            self.out_of_ids()
        })
    }

    /// Returns a group for ids of other nodes, which is made and charged to the budget if it does
    /// not exist yet.
    pub(crate) fn other(&self, number: u64) -> Result<&Group, ObjectError> {
        if let Some(group) = self.table.get(number) {
            return Ok(group);
        }
        let part_bytes = self.table.part_bytes();
        self.account.pay_table(part_bytes).map_err(|_| self.out_of_memory(part_bytes))?;
        // A check latches all existing groups, so no group may be added meanwhile.
        let _building = self.build();
        let (made, group) = self.table.get_or_make(number);
        if !made {
            self.account.give_back(part_bytes);
        }
        Ok(group)
    }

    /// Returns the group of an id in a dump or log; the id counts as given out.
    pub(crate) fn for_load(&self, number: u64) -> Result<&Group, ObjectError> {
        let Some(n) = self.table.own_number(number) else { return self.other(number) };
        let given_out = self.made.load(Ordering::SeqCst);
        if n >= given_out {
            self.fresh(n + 1 - given_out)?;
        }
        Ok(self.own(n))
    }
}

/// Owners of groups, and groups without owners that have free ids.
impl Groups {
    /// Returns the store's own group `n`.
    #[inline]
    pub(crate) fn own(&self, n: u64) -> &Group {
        let group = self.table.get(self.table.own(n));
        group.unwrap_or_else(|| unreachable!("own groups are below the table's end"))
    }

    /// Returns the lowest free slot of a group. No object has the id 0.
    #[inline]
    pub(crate) fn free_slot(&self, number: u64, view: &View) -> Option<u32> {
        let free = view.free_slots() & if number == 0 { !1 } else { u64::MAX };
        (free != 0).then(|| free.trailing_zeros())
    }

    /// Marks the store's own group `n`, which is new, as owned by a maker.
    pub(crate) fn take(&self, n: u64) {
        let latched = self.latch(self.own(n));
        let word = latched.group().view().word;
        latched.group().set_word(word.with(Flag::Owned, true));
    }

    /// Ends the ownership of the store's own group `n`, and lists it if it has free slots.
    pub(crate) fn leave(&self, n: u64) {
        let latched = self.latch(self.own(n));
        disown(latched.group());
        self.list(self.table.own(n), latched.group());
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

    /// Lists all groups with free ids of a store that was just read, as none has an owner yet.
    pub(crate) fn list_all(&self) {
        for n in 0..self.made.load(Ordering::SeqCst) {
            let latched = self.latch(self.own(n));
            self.list(self.table.own(n), latched.group());
        }
    }

    /// Removes a group with free slots from a list, and marks it as owned. Returns its index among
    /// the store's own groups; `None` if the list has none.
    pub(crate) fn unlist(&self, list: usize) -> Option<u64> {
        while let Some(n) = self.free.pop(list) {
            let latched = self.latch(self.own(n));
            let view = latched.group().view();
            let word = view.word.with(listed_as(list), false);
            latched.group().set_word(word);
            if word.has(Flag::Owned) {
                continue;
            }
            if list_of(&view) != list {
                // The group has lost its objects, or got others, since it was listed.
                self.list(self.table.own(n), latched.group());
            } else if self.free_slot(self.table.own(n), &view).is_some() {
                latched.group().set_word(word.with(Flag::Owned, true));
                return Some(n);
            }
        }
        None
    }

    /// As [`Groups::unlist`], from the longest list that has such a group.
    pub(crate) fn unlist_any(&self) -> Option<u64> {
        loop {
            let longest = self.free.longest();
            let taken = self.unlist(longest);
            if taken.is_some() || self.free.is_empty(longest) {
                return taken;
            }
        }
    }

    /// Removes `count` consecutive groups from the list of empty ones, and marks those that have no
    /// owner as owned. Returns their indices; `None` if the list has no such groups.
    pub(crate) fn unlist_empty(&self, count: u64) -> Option<Vec<u64>> {
        let first = self.free.take_empty(count)?;
        let take = |n: &u64| {
            let latched = self.latch(self.own(*n));
            let word = latched.group().view().word.with(Flag::Emptied, false);
            latched.group().set_word(word.with(Flag::Owned, true));
            !word.has(Flag::Owned)
        };
        Some((first..first + count).filter(take).collect())
    }

    /// Takes a group from a list, or else one without objects. If neither exists, and the table has
    /// more than [`SPARSE_IDS`] ids of which fewer than half are in use, takes a group from the
    /// longest list: its objects will have several lengths, but the table does not grow.
    pub(crate) fn unlist_for(&self, list: usize) -> Option<u64> {
        let listed = self.unlist(list).or_else(|| self.unlist(EMPTY_LIST));
        listed.or_else(|| {
            let sparse = self.is_sparse();
            sparse.then(|| self.unlist(self.free.longest())).flatten()
        })
    }

    fn is_sparse(&self) -> bool {
        let ids = self.made() * GROUP_SLOTS;
        let counts = &self.counts;
        let used = counts.objects() + counts.reserved() + counts.retired();
        ids > SPARSE_IDS && u64::try_from(used).unwrap_or(0) < ids / 2
    }
}

/// Number of ids up to which the table always grows. A larger table grows only if at least half of
/// its ids are in use; otherwise new objects go to groups with objects of other lengths.
const SPARSE_IDS: u64 = if cfg!(miri) { 64 * 8 } else { 64 * 1024 };

/// Ends the ownership of a latched group.
#[inline]
pub(crate) fn disown(group: &Group) {
    group.set_word(group.view().word.with(Flag::Owned, false));
}

/// Ids of slots, under the latches of their groups.
impl Groups {
    /// Ends the id of a slot, so that it names no object any more. The slot is used again, or
    /// retired if its generations are used up; only slots of the store's own ids are marked and
    /// counted as retired.
    #[inline]
    pub(crate) fn end_id(&self, slot: Slot<'_>) {
        let goes_on = slot.end_generation();
        if !goes_on && self.table.own_number(slot.number()).is_some() {
            slot.group().set_marked(slot.index(), true);
            self.counts.retire();
        }
    }

    /// Reserves the id of a slot that is neither used nor reserved.
    pub(crate) fn reserve(&self, slot: Slot<'_>) {
        slot.group().set_marked(slot.index(), true);
        if slot.is_worn_out() { self.counts.retire() } else { self.counts.reserve(1) }
    }

    /// Ends the reservation of an id, if it was reserved `before`. Its slot may have been retired
    /// by a dump that is later than the log.
    pub(crate) fn unreserve(&self, slot: Slot<'_>, before: &View) {
        // If the slot has an object, the mark says that it is locked or pinned.
        if before.reserved_slots() >> slot.index() & 1 != 0 {
            slot.group().set_marked(slot.index(), false);
            if slot.is_worn_out() { self.counts.unretire() } else { self.counts.unreserve() }
        }
    }
}

//! Objects: optimistic reads, and changes under the latch of a group.
//!
//! Locking order: a group's latch, then the records of locks, a list of groups, a list of placed
//! runs, or the log. A list of placed runs is locked before the slabs are.

mod defrag;
mod operations;
mod placed;

use std::time::Duration;

use terrace_sys::size::to_u64;

use crate::bytes;
use crate::config::{OBJECT_BYTES_MAX, ObjectConfig};
use crate::durable::journal::Journal;
use crate::durable::log::Log;
use crate::error::ObjectError;
use crate::groups::Groups;
use crate::groups::content::Content;
use crate::groups::edit::Editor;
use crate::groups::group::{Found, Latched};
use crate::groups::run::{GRANULE_BYTES, NoRoom, Run};
use crate::groups::table::{Slot, slot_of};
use crate::groups::word::NEAR_BYTES_MAX;
use crate::id::ObjectId;
use crate::locks::Locks;
use crate::locks::queue::Wait;
use crate::locks::record::Record;
use crate::threads::places;
pub use defrag::Defragmented;
use defrag::{Defragmenter, Mover};
use placed::{Placed, PlacedRuns};

/// Maximum number of optimistic reads before a reader takes the latch.
const LOOKS: u32 = 64;
/// Bytes copied in failed optimistic reads above which a reader takes the latch.
const WASTED_BYTES_MAX: usize = 64 << 10;
/// Maximum number of defragmentations by an operation that finds no free run.
const ROOM_TRIES: u32 = 3;

/// Reason that a change of a latched group failed: no free run of this number of granules, or an
/// error for the caller.
pub(crate) enum Trouble {
    NoRoom(u64),
    Error(ObjectError),
}

impl From<NoRoom> for Trouble {
    fn from(no_room: NoRoom) -> Self {
        Self::NoRoom(no_room.0)
    }
}

impl From<ObjectError> for Trouble {
    fn from(error: ObjectError) -> Self {
        Self::Error(error)
    }
}

/// Caller of an operation: with or without the object's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The caller does not hold the lock and waits while the object is locked.
    Anybody,
    /// The caller holds the object's lock.
    Holder,
}

/// Objects of a store, with everything that reads and changes of them need.
pub(crate) struct Objects {
    groups: Groups,
    locks: Locks,
    journal: Journal,
    placed: PlacedRuns,
    defragmenter: Defragmenter,
    /// Longest wait of an operation for an object that another thread has locked.
    patience: Duration,
}

impl Objects {
    /// Makes a store without objects and without a log.
    pub(crate) fn new(config: &ObjectConfig) -> Result<Self, ObjectError> {
        Ok(Self {
            groups: Groups::new(config)?,
            locks: Locks::new(),
            journal: Journal::new(),
            placed: PlacedRuns::new(places()),
            defragmenter: Defragmenter::default(),
            patience: config.patience,
        })
    }

    #[inline]
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    #[inline]
    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    #[inline]
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Sends the changes that are made from now on to a log.
    pub(crate) fn begin_log(&mut self, log: Log) {
        self.journal.begin(log);
    }

    /// Copies an object to the beginning of `to` and returns its length in bytes.
    #[inline]
    pub(crate) fn get(&self, id: ObjectId, to: &mut [u8]) -> Result<usize, ObjectError> {
        if let Some(group) = self.groups.table().plain(id)
            && let Some(seen) = group.version()
            && let Some((at, len)) = group.view().find_plainly(self.groups.slabs(), slot_of(id))
            && let Some(to) = to.get_mut(..len)
        {
            // SAFETY: as in `copy_out`.
            unsafe { bytes::read(at, to) };
            if group.is_still(seen) {
                return Ok(len);
            }
        }
        self.get_slowly(id, to)
    }

    #[cold]
    #[inline(never)]
    fn get_slowly(&self, id: ObjectId, to: &mut [u8]) -> Result<usize, ObjectError> {
        self.look(id, By::Anybody, |found| copy_out(id, found, to))?
    }

    /// Copies the bytes of an object from `offset` on, as many as `to` has.
    pub(crate) fn read_at(
        &self,
        by: By,
        id: ObjectId,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), ObjectError> {
        self.look(id, by, |found| {
            let from = part(id, found, offset, to.len())?;
            // SAFETY: the range lies in the object, whose memory is mapped as long as the store.
            unsafe { bytes::read(from, to) };
            Ok(())
        })?
    }

    /// Calls `work` with the location of an object and returns its result; without the latch if
    /// possible. If the group changed meanwhile, the result is discarded and `work` called again.
    #[inline]
    pub(crate) fn look<T>(
        &self,
        id: ObjectId,
        by: By,
        mut work: impl FnMut(Found) -> T,
    ) -> Result<T, ObjectError> {
        let slot = self.groups.find(id)?;
        let group = slot.group();
        let mut wasted = 0;
        for _ in 0..LOOKS {
            let Some(seen) = group.version() else {
                std::hint::spin_loop();
                continue;
            };
            let view = group.view();
            if !slot.is_present(&view) {
                if group.is_still(seen) {
                    return Err(ObjectError::NotFound(id));
                }
                continue;
            }
            let marked = view.is_marked(slot.index());
            if marked && by == By::Anybody && self.locks.is_write_locked(id) {
                break;
            }
            let Some(found) = view.find(self.groups.slabs(), slot.index()) else { continue };
            // An object with a run of its own may be long, and its location was read from the
            // group's run.
            if found.far.is_some() && !group.is_still(seen) {
                continue;
            }
            let value = work(found);
            if group.is_still(seen) {
                return Ok(value);
            }
            // Long objects are not copied again and again while other threads change the group.
            wasted += found.len;
            if wasted > WASTED_BYTES_MAX {
                break;
            }
        }
        self.look_latched(id, slot, by, work)
    }

    #[cold]
    fn look_latched<T>(
        &self,
        id: ObjectId,
        slot: Slot<'_>,
        by: By,
        mut work: impl FnMut(Found) -> T,
    ) -> Result<T, ObjectError> {
        let (mut wait, mut queue) = (Wait::new(self.patience), self.locks.queue(id, false));
        loop {
            let latched = self.groups.latch(slot.group());
            let view = slot.group().view();
            let present = slot.is_present(&view);
            let found = present.then(|| view.find(self.groups.slabs(), slot.index()));
            let found = found.flatten().ok_or(ObjectError::NotFound(id))?;
            let asks = by == By::Anybody && view.is_marked(slot.index());
            let busy = |record: &Record| asks && record.is_writing();
            if let Some(_latched) = queue.pass(latched, &mut wait, busy)? {
                return Ok(work(found));
            }
        }
    }

    /// Latches the group of a slot for a change of its contents.
    #[inline]
    pub(crate) fn latch<'a>(&'a self, slot: Slot<'a>) -> Latched<'a> {
        self.journal.latch(&self.groups, slot.number(), slot.group())
    }

    /// Calls `work` under the latch of the object's group, once no lock of another thread prevents
    /// a change. Defragments and calls it again if it found no free run.
    #[inline]
    fn change<T>(
        &self,
        id: ObjectId,
        by: By,
        mut work: impl FnMut(&Editor<'_>, Slot<'_>) -> Result<T, Trouble>,
    ) -> Result<T, ObjectError> {
        self.journal.is_here()?;
        let slot = self.groups.find(id)?;
        let (mut wait, mut queue) = (Wait::new(self.patience), self.locks.queue(id, true));
        let mut tries = 0;
        loop {
            let mut latched = self.latch(slot);
            let view = slot.group().view();
            if !slot.is_present(&view) {
                return Err(ObjectError::NotFound(id));
            }
            if by == By::Anybody && view.is_marked(slot.index()) {
                match queue.pass(latched, &mut wait, Record::is_locked)? {
                    Some(passed) => latched = passed,
                    None => continue,
                }
            }
            match work(&self.groups.editor(slot.group()), slot) {
                Ok(value) => return Ok(value),
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::NoRoom(granules)) => {
                    drop(latched);
                    self.make_room(granules, &mut tries)?;
                }
            }
        }
    }

    /// Allocates and fills the run of an object that is long enough to have one of its own, before
    /// any latch is taken: other threads wait neither for the copy nor for the memory.
    pub(crate) fn place_ahead(&self, content: Content<'_>) -> Result<Placed<'_>, ObjectError> {
        if content.len() <= NEAR_BYTES_MAX {
            return Ok(self.placed.none(self.groups.slabs()));
        }
        if content.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLong(content.len()));
        }
        let mut tries = 0;
        loop {
            match self.placed.take(self.groups.slabs(), content) {
                Ok(placed) => return Ok(placed),
                Err(no_room) => self.make_room(no_room.0, &mut tries)?,
            }
        }
    }

    /// Defragments after an operation found no free run of `granules`. Returns an error if that
    /// achieved nothing, or was tried too often: `tries` counts the attempts of the operation.
    pub(crate) fn make_room(&self, granules: u64, tries: &mut u32) -> Result<(), ObjectError> {
        *tries += 1;
        if !self.defragmenter.is_exhausted(&self.groups, granules) {
            let tried = *tries > ROOM_TRIES;
            if !tried && self.defragmenter.defragment_for_room(self.mover(), granules) {
                return Ok(());
            }
            self.defragmenter.note_exhausted(&self.groups, granules);
        }
        Err(self.groups.out_of_memory(granules * to_u64(GRANULE_BYTES)))
    }

    /// Frees the unused ends of groups' runs, and empties the slabs with the fewest used granules.
    pub(crate) fn defragment(&self) -> Defragmented {
        self.defragmenter.defragment(self.mover())
    }

    fn mover(&self) -> Mover<'_> {
        Mover { groups: &self.groups, locks: &self.locks, journal: &self.journal }
    }

    /// Runs `work` with every group that was ever used latched and nothing in motion: no group is
    /// built, no run is moved, and no run changes owners. `work` also gets the runs of objects that
    /// no group has yet. `makers` stops those that create objects.
    pub(crate) fn at_rest<T, M>(
        &self,
        makers: impl FnOnce() -> M,
        work: impl FnOnce(&[(u64, Latched<'_>)], Vec<Run>) -> T,
    ) -> T {
        let _built = self.groups.pause_building();
        let _still = self.defragmenter.pause();
        let _makers = makers();
        let mut latched = Vec::new();
        self.groups.each(|number, group| latched.push((number, self.groups.latch(group))));
        let placed = self.placed.lock_all();
        let runs = placed.iter().flat_map(|list| list.iter().copied()).collect();
        work(&latched, runs)
    }
}

#[inline]
pub(crate) fn copy_out(id: ObjectId, found: Found, to: &mut [u8]) -> Result<usize, ObjectError> {
    let room = to.len();
    let Some(to) = to.get_mut(..found.len) else {
        return Err(ObjectError::Buffer { id, has: found.len, room });
    };
    // SAFETY: `find` checked that the object lies in the slabs, which are mapped as long as the
    // store; concurrent writes to them go through `bytes`.
    unsafe { bytes::read(found.at, to) };
    Ok(found.len)
}

pub(crate) fn copy_whole(found: Found) -> Vec<u8> {
    let mut to = vec![0; found.len];
    // SAFETY: as in `copy_out`.
    unsafe { bytes::read(found.at, &mut to) };
    to
}

/// Returns the address of a range of an object.
fn part(id: ObjectId, found: Found, offset: usize, len: usize) -> Result<*mut u8, ObjectError> {
    let end = offset.checked_add(len).filter(|end| *end <= found.len);
    if end.is_none() {
        let given = offset.saturating_add(len);
        return Err(ObjectError::Length { id, has: found.len, given });
    }
    Ok(found.at.wrapping_add(offset))
}

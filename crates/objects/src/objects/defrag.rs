//! Online defragmentation.
//!
//! It does two things, one group at a time and each under the group's latch: it frees the unused
//! ends of groups' runs, and it moves the runs in the emptiest slabs to holes in other slabs, or
//! together toward the beginning of their slab, until whole slabs can be freed. A group's latch is
//! held for one copy of at most some 80 KiB, or of one object with a run of its own.

use std::sync::{Mutex, MutexGuard, TryLockError};

use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use crate::durable::journal::Journal;
use crate::groups::Groups;
use crate::groups::edit::Editor;
use crate::groups::group::{Group, Latched, View, bits};
use crate::groups::run::{GRANULE_BYTES, Run, SLAB_GRANULES};
use crate::groups::slabs::Slabs;
use crate::groups::slabs::drain::Need;
use crate::groups::word::{Flag, Kind, NEAR_BYTES_MAX};
use crate::locks::Locks;

/// Result of one round of defragmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defragmented {
    /// Number of runs that were moved.
    pub moved: u64,
    /// Bytes held by slabs before the round.
    pub held_bytes_before: u64,
    /// Bytes held by slabs after the round.
    pub held_bytes_after: u64,
    /// Bytes of runs before the round, slack included.
    pub used_bytes_before: u64,
    /// Bytes of runs after the round.
    pub used_bytes_after: u64,
}

/// State of the store when an operation found no room in spite of defragmentation.
#[derive(Clone, Copy, Debug)]
struct Exhausted {
    granules: u64,
    given: u64,
    object_bytes: i64,
}

/// Part of a store's memory (a 256th) that must have been freed since before another attempt is
/// worth its time.
const WORTH_PARTS: u64 = 256;

/// Runs rounds of defragmentation, one at a time, and remembers the last futile one.
#[derive(Default)]
pub(crate) struct Defragmenter {
    moving: Mutex<()>,
    exhausted: Mutex<Option<Exhausted>>,
}

impl Defragmenter {
    /// Frees the unused ends of groups' runs, and empties the slabs with the fewest used granules.
    /// A second call waits for the first.
    pub(crate) fn defragment(&self, mover: Mover<'_>) -> Defragmented {
        let _alone = self.pause();
        mover.run(Need::Tidiness)
    }

    /// Defragments for an operation that found no room. Returns true if there may be room now. If a
    /// round is in progress, waits for it and returns true.
    pub(crate) fn defragment_for_room(&self, mover: Mover<'_>, granules: u64) -> bool {
        let alone = match self.moving.try_lock() {
            Err(TryLockError::WouldBlock) => {
                drop(self.moving.lock());
                return true;
            }
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Ok(alone) => alone,
        };
        let done = mover.run(Need::Room(granules));
        drop(alone);
        done.moved > 0 || done.used_bytes_after < done.used_bytes_before
    }

    /// Waits for a round in progress, and blocks new ones until the returned value is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        lock(&self.moving)
    }

    /// True if an operation that needed at most `granules` found no room lately, and too little was
    /// freed since ([`WORTH_PARTS`]): another attempt would take long and fail.
    pub(crate) fn is_exhausted(&self, groups: &Groups, granules: u64) -> bool {
        let noted = *lock(&self.exhausted);
        let Some(noted) = noted.filter(|noted| granules >= noted.granules) else { return false };
        let worth = granules.max(groups.slabs().granules() / WORTH_PARTS);
        let given = groups.slabs().given().saturating_sub(noted.given);
        let removed = u64::try_from(noted.object_bytes - groups.counts().bytes()).unwrap_or(0);
        given < worth && removed / to_u64(GRANULE_BYTES) < worth
    }

    /// Records that an operation found no run of `granules` free granules.
    pub(crate) fn note_exhausted(&self, groups: &Groups, granules: u64) {
        let (given, object_bytes) = (groups.slabs().given(), groups.counts().bytes());
        *lock(&self.exhausted) = Some(Exhausted { granules, given, object_bytes });
    }
}

/// Mover of runs: the groups, and the locks and the dump in progress, which may prevent a move.
#[derive(Clone, Copy)]
pub(crate) struct Mover<'a> {
    pub(crate) groups: &'a Groups,
    pub(crate) locks: &'a Locks,
    pub(crate) journal: &'a Journal,
}

impl<'a> Mover<'a> {
    fn run(self, need: Need) -> Defragmented {
        let slabs = self.groups.slabs();
        let mut done = Defragmented {
            held_bytes_before: slabs.held_bytes(),
            used_bytes_before: slabs.used_bytes(),
            ..Defragmented::default()
        };
        slabs.close_all();
        self.groups.each(|number, group| self.tidy(need, number, group));
        let draining = Draining { slabs, drained: slabs.drain(need) };
        if !draining.drained.is_empty() {
            // In order of address, so that runs that stay in their slab move together.
            let mut runs = Vec::new();
            self.groups.each(|number, group| self.list_drained(number, group, &mut runs));
            runs.sort_unstable();
            let moved = runs.iter().filter(|(start, number)| self.move_away(*number, *start));
            done.moved = to_u64(moved.count());
        }
        drop(draining);
        done.held_bytes_after = slabs.held_bytes();
        done.used_bytes_after = slabs.used_bytes();
        done
    }

    /// Latches a group, unless a dump is writing its long objects: defragmentation does not wait
    /// for a device.
    fn latch(self, number: u64, group: &'a Group) -> Option<Latched<'a>> {
        (!self.journal.is_writing(number)).then(|| self.groups.latch(group))
    }

    /// Frees the unused end of a group's run.
    fn tidy(self, need: Need, number: u64, group: &'a Group) {
        // Without the latch the view may be torn; another round then sees the right one.
        let is_worth = |view: &View| {
            let used = |stride: usize| Run::granules(view.count() * stride);
            let slack = |stride: usize| view.word.run().len > used(stride);
            let owned = view.word.has(Flag::Owned) && need == Need::Tidiness;
            view.present != 0 && !owned && view.word.kind().stride().is_none_or(slack)
        };
        if !is_worth(&group.view()) {
            return;
        }
        let Some(latched) = self.latch(number, group) else { return };
        let view = group.view();
        if !is_worth(&view) {
            return;
        }
        let editor = self.groups.mover(latched.group());
        if need == Need::Tidiness {
            self.bring_home(number, &editor);
            // This takes less room than there is, so that it cannot fail for lack of it.
            let _ = editor.tidy();
        } else {
            editor.trim();
        }
    }

    /// Moves objects that were pinned once back into the run of their group.
    fn bring_home(self, number: u64, editor: &Editor<'_>) {
        let view = editor.group().view();
        let far = view.far_slots(self.groups.slabs()) & view.present & !view.marked;
        let is_short = |slot: &u32| {
            let len = editor.find(*slot).map_or(0, |found| found.len);
            len > 0 && len <= NEAR_BYTES_MAX
        };
        let slots = bits(far).filter(is_short);
        let slots: Vec<u32> = slots.collect();
        if slots.is_empty() || !editor.is_less_at_home(&slots) {
            return;
        }
        for slot in slots {
            debug_assert!(
                self.locks.is_unpinned(self.groups.table().id_at(number, slot), view, slot).is_ok()
            );
            // If there is no room for the object now, it keeps its run.
            let _ = editor.move_in(slot);
        }
    }

    /// Lists the runs of a group that lie in slabs being drained.
    fn list_drained(self, number: u64, group: &'a Group, runs: &mut Vec<(u64, u64)>) {
        let mut list = |run: Run| {
            if run.len > 0
                && self.groups.slabs().is_draining(run.start)
                && runs.try_reserve(1).is_ok()
            {
                runs.push((run.start, number));
            }
        };
        let view = group.view();
        if view.present == 0 {
            return;
        }
        if let Kind::Uniform(_) = view.word.kind() {
            return list(view.word.run());
        }
        let Some(latched) = self.latch(number, group) else { return };
        let (view, editor) = (group.view(), self.groups.editor(latched.group()));
        list(view.word.run());
        let far = |slot| editor.find(slot).and_then(|found| found.far);
        let short = |run: &Run| run.len <= to_u64(SLAB_GRANULES);
        bits(view.far_slots(self.groups.slabs()) & view.present)
            .filter_map(far)
            .filter(short)
            .for_each(list);
    }

    /// Moves the run of a group that begins at a granule, if it still does. Returns true if it was
    /// moved.
    fn move_away(self, number: u64, start: u64) -> bool {
        let Some(group) = self.groups.table().get(number) else { return false };
        let Some(latched) = self.latch(number, group) else { return false };
        let (view, editor) = (group.view(), self.groups.mover(latched.group()));
        if view.word.run().start == start && view.word.run().len > 0 {
            return editor.relocate().is_ok();
        }
        if matches!(view.word.kind(), Kind::Uniform(_)) {
            return false;
        }
        let far = |slot: &u32| editor.find(*slot).and_then(|found| found.far);
        let slot = view.slots().find(|slot| far(slot).is_some_and(|run| run.start == start));
        let is_free = |slot: &u32| {
            self.locks.is_unpinned(self.groups.table().id_at(number, *slot), view, *slot).is_ok()
        };
        slot.filter(is_free).is_some_and(|slot| editor.relocate_far(slot).is_ok())
    }
}

/// Slabs that are being drained: no run is allocated from them until this is dropped.
struct Draining<'a> {
    slabs: &'a Slabs,
    drained: Vec<usize>,
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        self.slabs.end_draining(&self.drained);
    }
}

//! Defragmentation, while everybody goes on.
//!
//! Two things are done, one group at a time and each under the group's latch: what a group has too
//! much is given back, and what lies in the emptiest slabs is moved to holes in the others, or
//! together to the beginning of its slab, until slabs can be given back whole. A group's latch is
//! held for one copy of at most some 80 KiB, or of one object with a run of its own.

use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

use terrace_sys::size::to_u64;

use crate::edit::Editor;
use crate::group::{Flag, Group, Kind, NEAR_BYTES_MAX, View, bits};
use crate::slabs::{Need, Run, SLAB_GRANULES, Slabs, Supply};
use crate::store::{Latched, ObjectStore};

/// What one round of defragmentation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defragmented {
    /// Runs of memory that were moved.
    pub moved: u64,
    /// Bytes that slabs held before.
    pub held_bytes_before: u64,
    /// Bytes that they hold now.
    pub held_bytes_after: u64,
    /// Bytes of runs before, slack included.
    pub used_bytes_before: u64,
    /// Bytes of runs now.
    pub used_bytes_after: u64,
}

/// When an operation found no room, although everything was done for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exhausted {
    granules: u64,
    given: u64,
    object_bytes: i64,
}

/// What was given back since is worth another look when it is such a part of a store's memory.
const WORTH_PARTS: u64 = 256;

impl ObjectStore {
    /// Gives back what groups have too much, and empties the slabs of which least is used. One call
    /// at a time; a second one waits for the first.
    ///
    /// Nobody waits for longer than one group takes: a copy of at most 80 KiB, or of one object
    /// that is longer than 1008 bytes. Objects that are pinned stay where they are.
    pub fn defragment(&self) -> Defragmented {
        let _alone = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        self.defragment_alone(Need::Tidiness)
    }

    /// For an operation that found no room; whether there is more now. Those who come while one is
    /// at it wait for it, and look again.
    pub(crate) fn defragment_for_room(&self, granules: u64) -> bool {
        let alone = match self.moving.try_lock() {
            Err(TryLockError::WouldBlock) => {
                drop(self.moving.lock());
                return true;
            }
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Ok(alone) => alone,
        };
        let done = self.defragment_alone(Need::Room(granules));
        drop(alone);
        done.moved > 0 || done.used_bytes_after < done.used_bytes_before
    }

    /// Whether an operation that needs so much found no room lately, and next to nothing was given
    /// back since: looking again would take long, and be in vain.
    pub(crate) fn is_exhausted(&self, granules: u64) -> bool {
        let noted = *self.exhausted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(noted) = noted.filter(|noted| granules >= noted.granules) else { return false };
        let worth = granules.max(self.slabs.granules() / WORTH_PARTS);
        let given = self.slabs.given().saturating_sub(noted.given);
        let removed = u64::try_from(noted.object_bytes - self.object_bytes()).unwrap_or(0);
        given < worth && removed / to_u64(crate::slabs::GRANULE_BYTES) < worth
    }

    /// An operation that needs so much found no room.
    pub(crate) fn note_exhausted(&self, granules: u64) {
        let noted =
            Exhausted { granules, given: self.slabs.given(), object_bytes: self.object_bytes() };
        *self.exhausted.lock().unwrap_or_else(PoisonError::into_inner) = Some(noted);
    }

    fn object_bytes(&self) -> i64 {
        self.counters.iter().map(|it| it.bytes.load(Ordering::Relaxed)).sum()
    }

    fn defragment_alone(&self, need: Need) -> Defragmented {
        let mut done = Defragmented {
            held_bytes_before: self.slabs.held_bytes(),
            used_bytes_before: self.slabs.used_bytes(),
            ..Defragmented::default()
        };
        self.slabs.close_all();
        self.each_group(|number, group| self.tidy(need, number, group));
        let draining = Draining { slabs: &self.slabs, drained: self.slabs.drain(need) };
        if !draining.drained.is_empty() {
            // From the front, so that what stays in its slab comes to lie together.
            let mut runs = Vec::new();
            self.each_group(|number, group| self.list_drained(number, group, &mut runs));
            runs.sort_unstable();
            let moved = runs.iter().filter(|(start, number)| self.move_away(*number, *start));
            done.moved = to_u64(moved.count());
        }
        drop(draining);
        done.held_bytes_after = self.slabs.held_bytes();
        done.used_bytes_after = self.slabs.used_bytes();
        done
    }

    /// Calls `work` with every group that was ever used.
    pub(crate) fn each_group(&self, mut work: impl FnMut(u64, &Group)) {
        for numbers in self.table.numbers(self.groups.load(Ordering::SeqCst)) {
            for number in numbers {
                if let Some(group) = self.table.get(number) {
                    work(number, group);
                }
            }
        }
    }

    /// Latches a group, unless a dump is writing its long objects: who looks for room does not wait
    /// for a device.
    fn latch_to_move<'a>(&'a self, number: u64, group: &'a Group) -> Option<Latched<'a>> {
        (!self.snapshot.is_writing(number)).then(|| self.latch(group))
    }

    /// What is moved must not make a store hold more than before.
    fn mover<'a>(&'a self, group: &'a Group) -> Editor<'a> {
        Editor { supply: Supply::Held, ..self.editor(group) }
    }

    /// Gives back what a group has too much.
    fn tidy(&self, need: Need, number: u64, group: &Group) {
        // What is seen without the latch may be nonsense, and another round sees it right.
        let is_worth = |view: &View| {
            let used = |stride: usize| Run::granules(view.count() * stride);
            let slack = |stride: usize| view.word.run().len > used(stride);
            let owned = view.word.has(Flag::Owned) && need == Need::Tidiness;
            view.present != 0 && !owned && view.word.kind().stride().is_none_or(slack)
        };
        if !is_worth(&group.view()) {
            return;
        }
        let Some(latched) = self.latch_to_move(number, group) else { return };
        let view = group.view();
        if !is_worth(&view) {
            return;
        }
        let editor = self.mover(latched.group);
        if need == Need::Tidiness {
            self.bring_home(number, &editor);
            // Less room is asked for than there is, so that nothing can be missing.
            let _ = editor.tidy();
        } else {
            editor.trim();
        }
    }

    /// Objects that were pinned once go back to the others of their group.
    fn bring_home(&self, number: u64, editor: &Editor<'_>) {
        let view = editor.group.view();
        let far = view.far_slots(&self.slabs) & view.present & !view.marked;
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
            debug_assert!(self.is_unpinned(self.id_at(number, slot), view, slot).is_ok());
            // Without room for it now it stays where it is.
            let _ = editor.move_in(slot);
        }
    }

    /// Lists the runs of a group that lie in slabs which are drained.
    fn list_drained(&self, number: u64, group: &Group, runs: &mut Vec<(u64, u64)>) {
        let mut list = |run: Run| {
            if run.len > 0 && self.slabs.is_draining(run.start) && runs.try_reserve(1).is_ok() {
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
        let Some(latched) = self.latch_to_move(number, group) else { return };
        let (view, editor) = (group.view(), self.editor(latched.group));
        list(view.word.run());
        let far = |slot| editor.find(slot).and_then(|found| found.far);
        let short = |run: &Run| run.len <= to_u64(SLAB_GRANULES);
        bits(view.far_slots(&self.slabs) & view.present)
            .filter_map(far)
            .filter(short)
            .for_each(list);
    }

    /// Moves the run of a group that begins at a granule, if there is one yet; whether it was.
    fn move_away(&self, number: u64, start: u64) -> bool {
        let Some(group) = self.table.get(number) else { return false };
        let Some(latched) = self.latch_to_move(number, group) else { return false };
        let (view, editor) = (group.view(), self.mover(latched.group));
        if view.word.run().start == start && view.word.run().len > 0 {
            return editor.relocate().is_ok();
        }
        if matches!(view.word.kind(), Kind::Uniform(_)) {
            return false;
        }
        let far = |slot: &u32| editor.find(*slot).and_then(|found| found.far);
        let slot = view.slots().find(|slot| far(slot).is_some_and(|run| run.start == start));
        let is_free = |slot: &u32| self.is_unpinned(self.id_at(number, *slot), view, *slot).is_ok();
        slot.filter(is_free).is_some_and(|slot| editor.relocate_far(slot).is_ok())
    }
}

/// Slabs that nobody allocates from until this is dropped.
struct Draining<'a> {
    slabs: &'a Slabs,
    drained: Vec<usize>,
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        self.slabs.end_draining(&self.drained);
    }
}

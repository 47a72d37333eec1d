//! Defragmentation, while everybody goes on.
//!
//! Two things are done, one group at a time and each under the group's latch: what a group has too
//! much is given back, and what lies in the emptiest slabs is moved to holes in the others, until
//! those slabs can be given back whole. A group's latch is held for one copy of at most some 80
//! KiB, or of one object with a run of its own.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::group::Group;
use crate::slabs::{Need, NoRoom, SLAB_GRANULES};
use crate::store::ObjectStore;
use crate::table::id_at;
use terrace_sys::size::to_u64;

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
    pub(crate) fn defragment_for_room(&self) -> bool {
        match self.moving.try_lock() {
            Ok(_alone) => {
                let done = self.defragment_alone(Need::Room);
                done.moved > 0 || done.used_bytes_after < done.used_bytes_before
            }
            Err(_) => {
                drop(self.moving.lock());
                true
            }
        }
    }

    fn defragment_alone(&self, need: Need) -> Defragmented {
        let mut done = Defragmented {
            held_bytes_before: self.slabs.held_bytes(),
            used_bytes_before: self.slabs.used_bytes(),
            ..Defragmented::default()
        };
        self.each_group(|_, group| {
            let latched = self.latch(group);
            if latched.group.view().present != 0 {
                // Less room is asked for than there is, so that nothing can be missing.
                let _ = self.editor(latched.group).tidy();
            }
        });
        let drained = self.slabs.drain(need);
        if !drained.is_empty() {
            self.each_group(|number, group| done.moved += self.move_away(number, group));
        }
        self.slabs.end_draining(&drained);
        done.held_bytes_after = self.slabs.held_bytes();
        done.used_bytes_after = self.slabs.used_bytes();
        done
    }

    /// Calls `work` with every group that was ever used.
    pub(crate) fn each_group(&self, mut work: impl FnMut(u64, &Group)) {
        for numbers in self.table.numbers(self.groups.load(Ordering::Acquire)) {
            for number in numbers {
                if let Some(group) = self.table.get(number) {
                    work(number, group);
                }
            }
        }
    }

    /// Moves what a group has in slabs that are drained; how many runs.
    fn move_away(&self, number: u64, group: &Group) -> u64 {
        let view = group.view();
        if view.present == 0 {
            return 0;
        }
        let latched = self.latch(group);
        let (view, editor) = (group.view(), self.editor(latched.group));
        let mut moved = 0;
        let mut count = |result: Result<(), NoRoom>| moved += u64::from(result.is_ok());
        let drains = |run: crate::slabs::Run| run.len > 0 && self.slabs.is_draining(run.start);
        for slot in view.slots() {
            if view.word.kind().stride().is_some() && view.word.kind() != crate::group::Kind::Remote
            {
                break;
            }
            let far = editor.find(slot).and_then(|found| found.far);
            let movable = far.is_some_and(|run| run.len <= to_u64(SLAB_GRANULES) && drains(run));
            if movable && self.is_unpinned(id_at(number, slot), view, slot).is_ok() {
                count(editor.relocate_far(slot));
            }
        }
        if drains(group.view().word.run()) {
            count(editor.relocate());
        }
        moved
    }
}

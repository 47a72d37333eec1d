//! Every interleaving of an optimistic reader with threads that change its group, explored by loom:
//! the real groups, views and editors over bytes that are atomics.
//!
//! Readers change nothing, so a reader that begins when the writer has ended, and may see any value
//! that the writer stored meanwhile, covers all cases. The writer goes first for that reason: loom
//! begins with its thread, and gives the reader old values and new ones.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p terrace-objects --release --lib loom_tests`

use std::sync::Arc as Plain;

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use terrace_latch::ParkingLot;
use terrace_region::Backing;

use crate::account::Account;
use crate::bytes;
use crate::groups::content::Content;
use crate::groups::edit::Editor;
use crate::groups::group::Group;
use crate::groups::memory::Memory;
use crate::groups::run::{GRANULE_BYTES, Run, SLAB_BYTES, SLAB_GRANULES};
use crate::groups::slabs::{Slabs, Supply};
use crate::sync::bytes::use_memory;

/// Granules that the programs use, from the first one on.
const USED: usize = 16;
/// Most preemptions of a running thread, in programs of three threads.
const PREEMPTIONS_MAX: usize = 4;

/// Two groups over one slab.
struct World {
    slabs: Slabs,
    lot: ParkingLot,
    groups: [Group; 2],
}

/// Result of an optimistic read.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// A concurrent change was detected.
    Change,
    Nothing,
    Object(Vec<u8>),
}

impl World {
    /// Makes a world with these objects in the first slots of the first group, which has no granule
    /// more than they need. `free` other granules are free.
    fn new(objects: &[&[u8]], free: u64) -> Self {
        let memory = Memory::new(&Backing::Dram { bytes: SLAB_BYTES }, false);
        let account = Plain::new(Account::new(None, "loom", true));
        let slabs = Slabs::new(memory.expect("memory"), 1, account).expect("memory");
        use_memory(slabs.address(0), USED * GRANULE_BYTES);
        let world = Self { slabs, lot: ParkingLot::new(), groups: Default::default() };
        world.change(0, |editor| {
            for (slot, bytes) in (0..).zip(objects) {
                editor.insert(slot, Content::Bytes(bytes)).expect("room");
            }
            editor.tidy().expect("less room");
        });
        world.leave(free);
        world
    }

    /// Allocates all granules except `free`.
    fn leave(&self, free: u64) {
        let used = self.groups[0].view().word.run().len;
        let all = self.slabs.take(0, SLAB_GRANULES as u64 - used).expect("an empty slab");
        if free > 0 {
            self.slabs.give(Run { len: free, ..all });
        }
    }

    /// Changes a group under its latch.
    fn change<T>(&self, group: usize, work: impl FnOnce(&Editor<'_>) -> T) -> T {
        let group = &self.groups[group];
        let _latched = group.latch_by_lot(&self.lot);
        work(&Editor::new(&self.slabs, group, 0, Supply::All))
    }

    /// Reads as `ObjectStore::get` does.
    fn get(&self, group: usize, slot: u32) -> Seen {
        let group = &self.groups[group];
        let Some(seen) = group.version() else { return Seen::Change };
        let view = group.view();
        let Some((at, len)) = view.find_plainly(&self.slabs, slot) else {
            return if group.is_still(seen) { Seen::Nothing } else { Seen::Change };
        };
        let mut to = vec![0; len];
        // SAFETY: the object lies in the slab, which is mapped as long as the world.
        unsafe { bytes::read(at, &mut to) };
        if group.is_still(seen) { Seen::Object(to) } else { Seen::Change }
    }

    /// Reads as `ObjectStore::look` does.
    fn look(&self, group: usize, slot: u32) -> Seen {
        let group = &self.groups[group];
        let Some(seen) = group.version() else { return Seen::Change };
        let view = group.view();
        let Some(found) = view.find(&self.slabs, slot) else { return Seen::Change };
        if found.far.is_some() && !group.is_still(seen) {
            return Seen::Change;
        }
        let mut to = vec![0; found.len];
        // SAFETY: as above.
        unsafe { bytes::read(found.at, &mut to) };
        if group.is_still(seen) { Seen::Object(to) } else { Seen::Change }
    }
}

/// Runs a writer beside a reader of the first group's object in `slot`. The reader must see a
/// result that `may_see` allows, or detect the change.
fn explore(
    world: fn() -> World,
    slot: u32,
    writer: fn(&World),
    may_see: impl Fn(&Seen) -> bool + Copy + Send + Sync + 'static,
) {
    loom::model(move || {
        let world = Arc::new(world());
        let other = Arc::clone(&world);
        let reader = thread::spawn(move || {
            let seen = other.get(0, slot);
            assert!(seen == Seen::Change || may_see(&seen), "{seen:?}");
        });
        writer(&world);
        reader.join().expect("reader");
    });
}

fn is(seen: &Seen, objects: &[&[u8]]) -> bool {
    matches!(seen, Seen::Object(bytes) if objects.contains(&bytes.as_slice()))
}

fn two() -> World {
    World::new(&[&[1, 1], &[2, 2]], 0)
}

#[test]
fn bytes_that_are_written_in_place_are_seen_whole() {
    let put = |world: &World| {
        world.change(0, |editor| {
            let found = editor.find(1).expect("there");
            // SAFETY: the object has two bytes, and the latch makes them this thread's.
            unsafe { bytes::write(found.at, &[3, 3]) };
        });
    };
    explore(two, 1, put, |seen| is(seen, &[&[2, 2], &[3, 3]]));
}

/// The next object of a group moves to the bytes of the removed one, and another to its bytes.
#[test]
fn an_object_behind_a_removed_one_is_seen_whole() {
    let remove = |world: &World| {
        world.change(0, |editor| editor.remove(0));
        world.change(0, |editor| editor.insert(2, Content::Bytes(&[7, 7])).expect("room"));
    };
    explore(two, 1, remove, |seen| is(seen, &[&[2, 2]]));
}

#[test]
fn an_object_that_comes_before_another_leaves_it_whole() {
    let world = || World::new(&[&[1, 1]], 4);
    let insert = |world: &World| {
        world.change(0, |editor| editor.insert(3, Content::Bytes(&[4, 4])).expect("room"));
        world.change(0, |editor| editor.remove(0));
        world.change(0, |editor| editor.insert(1, Content::Bytes(&[5, 5])).expect("room"));
    };
    explore(world, 3, insert, |seen| *seen == Seen::Nothing || is(seen, &[&[4, 4]]));
}

#[test]
fn a_longer_object_is_seen_with_its_own_length() {
    let world = || World::new(&[&[1, 1]], 0);
    let replace = |world: &World| {
        world.change(0, |editor| editor.replace(0, Content::Bytes(&[3, 3, 3])).expect("room"));
    };
    explore(world, 0, replace, |seen| is(seen, &[&[1, 1], &[3, 3, 3]]));
}

/// A run goes from one group to another while a reader copies the old contents (ABA).
#[test]
fn a_run_that_another_group_has_now_is_not_believed() {
    let world = || World::new(&[&[1, 1]], 0);
    let reuse = |world: &World| {
        world.change(0, |editor| editor.remove(0));
        world.change(1, |editor| editor.insert(5, Content::Bytes(&[9, 9])).expect("the run"));
        let (start, len) = (world.groups[1].view().word.run().start, GRANULE_BYTES);
        assert!((start, len) == (0, 4), "the same run");
    };
    explore(world, 0, reuse, |seen| *seen == Seen::Nothing || is(seen, &[&[1, 1]]));
}

/// The next owner of a run is another thread than the one that freed it.
#[test]
fn a_run_that_another_thread_took_is_not_believed() {
    let mut model = Builder::new();
    model.preemption_bound = Some(PREEMPTIONS_MAX);
    model.check(|| {
        let world = Arc::new(World::new(&[&[1, 1]], 0));
        let (taker, reader) = (Arc::clone(&world), Arc::clone(&world));
        let taker = thread::spawn(move || {
            let made = taker.change(1, |editor| editor.insert(5, Content::Bytes(&[9, 9])).is_ok());
            // An allocation before the run is freed fails.
            assert!(!made || taker.get(1, 5) == Seen::Object(vec![9, 9]));
        });
        let reader = thread::spawn(move || {
            let seen = reader.get(0, 0);
            let old = seen == Seen::Nothing || is(&seen, &[&[1, 1]]);
            assert!(seen == Seen::Change || old, "{seen:?}");
        });
        world.change(0, |editor| editor.remove(0));
        taker.join().expect("taker");
        reader.join().expect("reader");
    });
}

#[test]
fn a_group_that_is_moved_is_seen_whole() {
    let world = || World::new(&[&[1, 1], &[2, 2]], 1);
    let relocate = |world: &World| {
        world.change(0, |editor| editor.relocate().expect("room"));
        world.change(1, |editor| editor.insert(5, Content::Bytes(&[9, 9])).expect("the old run"));
        assert_eq!(world.groups[1].view().word.run().start, 0);
    };
    explore(world, 0, relocate, |seen| is(seen, &[&[1, 1]]));
}

/// The location of an object with a run of its own stands in memory that changes as well.
#[test]
fn an_object_with_a_run_of_its_own_is_followed_only_when_that_is_still_so() {
    loom::model(|| {
        let world = Arc::new(World::new(&[&[1, 1]], 7));
        world.change(0, |editor| {
            editor.move_out(0).expect("room");
            editor.tidy().expect("less");
        });
        let other = Arc::clone(&world);
        let reader = thread::spawn(move || {
            let seen = other.look(0, 0);
            assert!(seen == Seen::Change || is(&seen, &[&[1, 1]]), "{seen:?}");
        });
        world.change(0, |editor| editor.relocate_far(0).expect("room"));
        world.change(1, |editor| editor.insert(5, Content::Bytes(&[9, 9])).expect("room"));
        reader.join().expect("reader");
    });
}

//! The store as it was at one moment, while everybody goes on.
//!
//! Every group has a flag, and the store has one that all groups with objects agree with. A dump
//! turns the store's flag: that is its moment. Groups that disagree from then on are as they were;
//! the dump copies them one after the other and turns their flags. Whoever is about to change one
//! of them copies it first, under the latch that the change takes anyway, and turns its flag. A
//! change that began under its latch before the moment is in the dump, one that began after it is
//! not, and no change waits for the dump, unless what was copied for it is more than it may keep.
//!
//! Locking order: a group's latch, then what is kept. Nobody waits for room with a latch.

use std::collections::TryReserveError;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::size::to_u64;

use crate::group::{Flag, Group, RunWord, View};
use crate::record;
use crate::store::{Latched, ObjectStore};

/// What changes may copy ahead of a dump, in bytes; whoever comes then waits for the dump.
pub(crate) const KEPT_BYTES_MAX: usize = 8 << 20;

/// The store's flag, as a bit.
const TURNED: u8 = 1;
/// A dump is being made.
const DUMPING: u8 = 2;

/// The flag that groups are compared with, and what was copied of those that changed too early.
pub(crate) struct Snapshot {
    state: AtomicU8,
    kept: Mutex<Kept>,
    drained: Condvar,
    /// One dump at a time.
    alone: Mutex<()>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    copied: Copied,
    failed: Option<TryReserveError>,
}

/// What a dump has copied.
#[derive(Clone, Copy, Default)]
pub(crate) struct Copied {
    pub(crate) objects: u64,
    pub(crate) object_bytes: u64,
    /// Groups that others copied.
    pub(crate) kept_groups: u64,
}

impl Copied {
    fn add(&mut self, objects: usize, object_bytes: usize) {
        self.objects += to_u64(objects);
        self.object_bytes += to_u64(object_bytes);
    }
}

/// What the flags of groups are compared with.
#[derive(Clone, Copy)]
pub(crate) struct Turn(u8);

impl Turn {
    /// Whether a group may be changed as it is.
    #[inline]
    pub(crate) fn suits(self, word: RunWord) -> bool {
        word.has(Flag::Turned) == (self.0 & TURNED != 0)
    }
}

impl Snapshot {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(0),
            kept: Mutex::default(),
            drained: Condvar::new(),
            alone: Mutex::default(),
        }
    }

    /// What the flag of a group is to be before it is changed; asked under the group's latch.
    #[inline]
    pub(crate) fn turn(&self) -> Turn {
        Turn(self.state.load(Ordering::SeqCst))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// Copies a latched group that is about to change, if a dump has yet to come to it; false when
    /// there is no room to.
    fn keep(&self, store: &ObjectStore, number: u64, group: &Group, turn: Turn) -> bool {
        let view = group.view();
        if turn.0 & DUMPING != 0 && store.is_worth_dumping(number, &view) {
            let mut kept = self.kept();
            if kept.failed.is_none() {
                if kept.bytes.len() >= KEPT_BYTES_MAX {
                    return false;
                }
                match store.write_group(number, &view, &mut kept.bytes) {
                    Ok(bytes) => kept.copied.add(view.count(), bytes),
                    Err(error) => kept.failed = Some(error),
                }
                kept.copied.kept_groups += 1;
            }
        }
        turn_flag(group, turn);
        true
    }

    fn wait_for_room(&self) {
        let mut kept = self.kept();
        while kept.bytes.len() >= KEPT_BYTES_MAX && kept.failed.is_none() {
            kept = self.drained.wait(kept).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn turn_flag(group: &Group, turn: Turn) {
    group.set_word(group.view().word.with(Flag::Turned, turn.0 & TURNED != 0));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A dump of which some groups are yet to be copied. Dropping it turns their flags.
pub(crate) struct Cut<'a> {
    store: &'a ObjectStore,
    turn: Turn,
    parts: Vec<std::ops::Range<u64>>,
    copied: Copied,
    _alone: MutexGuard<'a, ()>,
}

impl ObjectStore {
    /// Latches a group to change what it holds.
    #[inline]
    pub(crate) fn latch_to_change<'a>(&'a self, number: u64, group: &'a Group) -> Latched<'a> {
        loop {
            let latched = self.latch(group);
            let turn = self.snapshot.turn();
            if turn.suits(group.view().word) || self.snapshot.keep(self, number, group, turn) {
                return latched;
            }
            drop(latched);
            self.snapshot.wait_for_room();
        }
    }

    /// Whether a latched group is anything else than one that nobody used.
    fn is_worth_dumping(&self, number: u64, view: &View) -> bool {
        let used = |generations: [u8; 64]| generations != [0; 64];
        view.present | view.marked != 0 || self.table.generations_of(number).is_some_and(used)
    }

    fn write_group(
        &self,
        number: u64,
        view: &View,
        to: &mut Vec<u8>,
    ) -> Result<usize, TryReserveError> {
        record::group(&self.slabs, number, self.table.generations_of(number), view, to)
    }

    /// Makes this the moment of a dump; waits for one that is being made.
    pub(crate) fn cut(&self) -> Cut<'_> {
        let alone = lock(&self.snapshot.alone);
        let now = self.snapshot.state.load(Ordering::SeqCst);
        *self.snapshot.kept() = Kept::default();
        // Who makes a group that is not among these finds the flag turned: it counts the group
        // before it looks at the flag, and here the flag is turned before groups are counted.
        let turn = Turn(now ^ TURNED | DUMPING);
        self.snapshot.state.swap(turn.0, Ordering::SeqCst);
        let mut parts = self.table.numbers(self.groups.load(Ordering::SeqCst));
        parts.reverse();
        Cut { store: self, turn, parts, copied: Copied::default(), _alone: alone }
    }
}

impl Cut<'_> {
    /// Copies groups as they were, until there are `most` bytes; false when these are the last.
    pub(crate) fn copy(&mut self, to: &mut Vec<u8>, most: usize) -> Result<bool, TryReserveError> {
        while to.len() < most {
            let Some(number) = self.next() else {
                self.take_kept(to)?;
                return Ok(false);
            };
            let Some(group) = self.store.table.get(number) else { continue };
            let latched = self.store.latch(group);
            let view = latched.group.view();
            if self.turn.suits(view.word) {
                continue;
            }
            let holds = self.store.is_worth_dumping(number, &view);
            let bytes = if holds { self.store.write_group(number, &view, to) } else { Ok(0) };
            turn_flag(group, self.turn);
            self.copied.add(view.count(), bytes?);
        }
        self.take_kept(to)?;
        Ok(true)
    }

    /// Everything is copied; what that was.
    pub(crate) fn end(self) -> Copied {
        let kept = self.store.snapshot.kept().copied;
        Copied {
            objects: self.copied.objects + kept.objects,
            object_bytes: self.copied.object_bytes + kept.object_bytes,
            ..kept
        }
    }

    fn next(&mut self) -> Option<u64> {
        loop {
            let part = self.parts.last_mut()?;
            if let Some(number) = part.next() {
                return Some(number);
            }
            self.parts.pop();
        }
    }

    fn take_kept(&self, to: &mut Vec<u8>) -> Result<(), TryReserveError> {
        let mut kept = self.store.snapshot.kept();
        if let Some(error) = &kept.failed {
            return Err(error.clone());
        }
        to.try_reserve(kept.bytes.len())?;
        to.append(&mut kept.bytes);
        drop(kept);
        self.store.snapshot.drained.notify_all();
        Ok(())
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        let snapshot = &self.store.snapshot;
        snapshot.state.fetch_and(!DUMPING, Ordering::SeqCst);
        *snapshot.kept() = Kept::default();
        snapshot.drained.notify_all();
        // A dump that failed leaves groups behind. Nobody copies them any more, and a later dump
        // is not to take them for groups that it has come to.
        while let Some(number) = self.next() {
            if let Some(group) = self.store.table.get(number) {
                let latched = self.store.latch(group);
                turn_flag(latched.group, self.turn);
            }
        }
    }
}

/// Bytes that a dump takes of the store's budget while it is made.
pub(crate) fn dump_bytes() -> u64 {
    to_u64(KEPT_BYTES_MAX + 2 * record::PIECE_BYTES)
}

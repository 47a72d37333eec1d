//! Snapshot of the store for a dump, without blocking changes.
//!
//! Every group has a flag, and the store has one that the flags of all groups with objects equal. A
//! dump turns the store's flag: this is the moment of the dump. Groups whose flags differ from then
//! on are unchanged since that moment; the dump copies them one after the other and turns their
//! flags. A thread that is about to change one of them copies it first, under the latch that the
//! change takes anyway, and turns its flag (copy on write). A change that began under its latch
//! before the moment is in the dump, one that began after it is not, and no change waits for the
//! dump, unless the copies made for it exceed `KEPT_BYTES_MAX`.
//!
//! A group of long objects is not copied by changes, as its length has no bound: the dump writes it
//! in pieces, before others if a thread waits to change it. Its objects can be read meanwhile.
//!
//! Locking order: a group's latch, then the copies (`kept`). No thread waits for room with a latch.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use super::record::{self, PIECE_BYTES};
use crate::error::ObjectError;
use crate::groups::Groups;
use crate::groups::group::{Group, Latched};
use crate::groups::word::{Flag, RunWord};

/// Bytes of copies from which on changes wait until the dump has written the copies.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Groups whose objects have more bytes are copied by the dump alone.
const AHEAD_BYTES_MAX: usize = PIECE_BYTES;

/// Bit of `Snapshot::state` that is the store's flag.
const TURNED: u8 = 1;
/// Bit of `Snapshot::state` that is set while a dump is made.
const DUMPING: u8 = 2;

/// The store's flag, which the groups' flags are compared with, and the copies of groups that were
/// changed before the dump reached them.
pub(crate) struct Snapshot {
    state: AtomicU8,
    kept: Mutex<Kept>,
    /// A thread waits for the dump.
    hurry: AtomicBool,
    /// Number of the group of long objects that is being written.
    writing: AtomicU64,
    drained: Condvar,
    /// Held while a dump is made: a second dump waits for the first.
    alone: Mutex<()>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    copied: Copied,
    /// Groups of long objects that threads wait to change.
    wanted: Vec<u64>,
    /// The allocation of a copy failed.
    failed: bool,
}

/// Counts of the objects in a dump, and of the groups that changes copied for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Copied {
    pub(crate) objects: u64,
    pub(crate) object_bytes: u64,
    /// Groups copied by changes, ahead of the dump.
    pub(crate) kept_groups: u64,
}

impl Copied {
    fn add(&mut self, holding: &record::Holding) {
        self.objects += to_u64(holding.count());
        self.object_bytes += to_u64(holding.bytes);
    }
}

/// The store's flag, to compare those of groups with.
#[derive(Clone, Copy)]
pub(crate) struct Turn(u8);

impl Turn {
    /// True if a group with this word may be changed without a copy.
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
            hurry: AtomicBool::new(false),
            writing: AtomicU64::new(u64::MAX),
            drained: Condvar::new(),
            alone: Mutex::default(),
        }
    }

    /// True if the dump is writing this group, which cannot be changed meanwhile.
    pub(crate) fn is_writing(&self, number: u64) -> bool {
        self.writing.load(Ordering::SeqCst) == number
    }

    /// Returns the store's flag, which a group's flag must equal before the group is changed. The
    /// caller holds the group's latch.
    #[inline]
    pub(crate) fn turn(&self) -> Turn {
        Turn(self.state.load(Ordering::SeqCst))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// Copies a latched group that is about to change, if a dump has yet to copy it. Returns false
    /// if the change must wait for the dump.
    fn keep(&self, groups: &Groups, number: u64, group: &Group, turn: Turn) -> bool {
        let view = group.view();
        if turn.0 & DUMPING != 0 && groups.is_used(number, &view) {
            let holding = record::Holding::of(groups.slabs(), &view);
            let mut kept = self.kept();
            // A dump that failed meanwhile takes no more copies.
            if !kept.failed && self.turn().0 == turn.0 {
                let Ok(holding) = holding else {
                    kept.failed = true;
                    return false;
                };
                // A damaged group is left to the dump, which reports it.
                let short = holding.filter(|holding| holding.bytes <= AHEAD_BYTES_MAX);
                if short.is_none() && !kept.wanted.contains(&number) {
                    kept.wanted.push(number);
                }
                let Some(holding) = short.filter(|_| kept.bytes.len() < KEPT_BYTES_MAX) else {
                    self.hurry.store(true, Ordering::SeqCst);
                    return false;
                };
                let generations = groups.table().generations_of(number);
                let room = &mut |to: &mut Vec<u8>, bytes| to.try_reserve(bytes);
                let copied = holding.append(number, generations, &view, &mut kept.bytes, room);
                kept.failed = copied.is_err();
                kept.copied.add(&holding);
                kept.copied.kept_groups += 1;
            }
        }
        turn_flag(group, turn);
        true
    }

    /// Latches a group for a change of its contents, after a copy for a dump if one is needed.
    #[inline]
    pub(crate) fn latch<'a>(
        &self,
        groups: &'a Groups,
        number: u64,
        group: &'a Group,
    ) -> Latched<'a> {
        loop {
            let latched = groups.latch(group);
            let turn = self.turn();
            if turn.suits(group.view().word) || self.keep(groups, number, group, turn) {
                return latched;
            }
            drop(latched);
            self.wait_for_room(number);
        }
    }

    /// Begins a dump of the groups as they are now; waits for a dump in progress.
    pub(crate) fn cut<'a>(&'a self, groups: &'a Groups) -> Cut<'a> {
        let alone = lock(&self.alone);
        let now = self.state.load(Ordering::SeqCst);
        let mut bytes = Vec::new();
        // If this allocation fails, that of the first copy does too.
        let _ = bytes.try_reserve_exact(KEPT_BYTES_MAX + AHEAD_BYTES_MAX);
        *self.kept() = Kept { bytes, ..Kept::default() };
        // A thread that makes a group which is not among these finds the flag turned: it counts the
        // group before it reads the flag, and here the flag is turned before groups are counted.
        let turn = Turn(now ^ TURNED | DUMPING);
        self.state.swap(turn.0, Ordering::SeqCst);
        let mut parts = groups.numbers();
        parts.reverse();
        Cut { snapshot: self, groups, turn, parts, copied: Copied::default(), _alone: alone }
    }

    /// Waits until the dump has written the copies made for it, and this group if it is one of
    /// `wanted`.
    fn wait_for_room(&self, number: u64) {
        let mut kept = self.kept();
        let waits = |kept: &Kept| {
            !kept.failed && (kept.bytes.len() >= KEPT_BYTES_MAX || kept.wanted.contains(&number))
        };
        while waits(&kept) {
            kept = self.drained.wait(kept).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn turn_flag(group: &Group, turn: Turn) {
    group.set_word(group.view().word.with(Flag::Turned, turn.0 & TURNED != 0));
}

/// A dump in progress. Dropping it turns the flags of the groups that it has not copied.
pub(crate) struct Cut<'a> {
    snapshot: &'a Snapshot,
    groups: &'a Groups,
    turn: Turn,
    parts: Vec<std::ops::Range<u64>>,
    copied: Copied,
    _alone: MutexGuard<'a, ()>,
}

/// Function that writes the next bytes of a dump.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), ObjectError> + 'a;

fn flush(bytes: &mut Vec<u8>, write: &mut Sink<'_>) -> Result<(), ObjectError> {
    write(bytes)?;
    bytes.clear();
    Ok(())
}

impl Cut<'_> {
    /// Passes the records of all groups, as they were at the moment of the dump, to `write`.
    pub(crate) fn copy(&mut self, write: &mut Sink<'_>) -> Result<(), ObjectError> {
        let (mut to, mut spare) = (Vec::new(), Vec::new());
        let no_memory = |_| self.groups.out_of_memory(dump_bytes());
        to.try_reserve_exact(TO_BYTES_MAX).map_err(no_memory)?;
        spare.try_reserve_exact(KEPT_BYTES_MAX + AHEAD_BYTES_MAX).map_err(no_memory)?;
        while let Some(number) = self.next() {
            self.copy_group(number, &mut to, write)?;
            if to.len() >= PIECE_BYTES {
                flush(&mut to, write)?;
            }
            if self.snapshot.hurry.swap(false, Ordering::SeqCst) {
                self.copy_wanted(&mut to, write)?;
                // The last group in the buffer may be written in part.
                flush(&mut to, write)?;
                self.take_kept(&mut spare, write)?;
            }
        }
        flush(&mut to, write)?;
        self.take_kept(&mut spare, write)
    }

    fn copy_group(
        &mut self,
        number: u64,
        to: &mut Vec<u8>,
        write: &mut Sink<'_>,
    ) -> Result<(), ObjectError> {
        let Some(group) = self.groups.table().get(number) else { return Ok(()) };
        let latched = self.groups.latch(group);
        let view = latched.group().view();
        if self.turn.suits(view.word) {
            return Ok(());
        }
        turn_flag(group, self.turn);
        if !self.groups.is_used(number, &view) {
            return Ok(());
        }
        let no_memory = |_| self.groups.out_of_memory(dump_bytes());
        let holding = record::Holding::of(self.groups.slabs(), &view).map_err(no_memory)?;
        let nowhere = || ObjectError::Damaged(format!("an object of group {number} is nowhere"));
        let holding = holding.ok_or_else(nowhere)?;
        self.copied.add(&holding);
        let generations = self.groups.table().generations_of(number);
        if holding.bytes <= AHEAD_BYTES_MAX {
            let room = &mut |to: &mut Vec<u8>, bytes| to.try_reserve(bytes).map_err(no_memory);
            return holding.append(number, generations, &view, to, room);
        }
        // The group cannot change until all of it is written, which may take a while.
        self.snapshot.writing.store(number, Ordering::SeqCst);
        let _held = latched.downgrade();
        let mut room = |to: &mut Vec<u8>, bytes| {
            if to.len() + bytes > PIECE_BYTES {
                flush(to, write)?;
            }
            to.try_reserve(bytes).map_err(no_memory)
        };
        let written = holding.append(number, generations, &view, to, &mut room);
        self.snapshot.writing.store(u64::MAX, Ordering::SeqCst);
        written
    }

    /// Copies the groups of long objects that threads wait to change.
    fn copy_wanted(&mut self, to: &mut Vec<u8>, write: &mut Sink<'_>) -> Result<(), ObjectError> {
        loop {
            let Some(number) = self.snapshot.kept().wanted.last().copied() else {
                return Ok(());
            };
            self.copy_group(number, to, write)?;
            self.snapshot.kept().wanted.retain(|wanted| *wanted != number);
            self.snapshot.drained.notify_all();
        }
    }

    /// Ends the dump and returns the statistics of its copies.
    pub(crate) fn end(self) -> Copied {
        let kept = self.snapshot.kept().copied;
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

    /// Writes the copies made by changes, which continue with an empty buffer meanwhile.
    fn take_kept(&self, spare: &mut Vec<u8>, write: &mut Sink<'_>) -> Result<(), ObjectError> {
        let mut kept = self.snapshot.kept();
        if kept.failed {
            return Err(self.groups.out_of_memory(dump_bytes()));
        }
        std::mem::swap(&mut kept.bytes, spare);
        drop(kept);
        self.snapshot.drained.notify_all();
        flush(spare, write)
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        let snapshot = self.snapshot;
        // The sink may have panicked.
        snapshot.writing.store(u64::MAX, Ordering::SeqCst);
        let mut kept = snapshot.kept();
        snapshot.state.fetch_and(!DUMPING, Ordering::SeqCst);
        *kept = Kept::default();
        drop(kept);
        snapshot.drained.notify_all();
        // A failed dump leaves groups uncopied. They must not count as unchanged any more, nor as
        // already copied by a later dump.
        while let Some(number) = self.next() {
            if let Some(group) = self.groups.table().get(number) {
                let latched = self.groups.latch(group);
                turn_flag(latched.group(), self.turn);
            }
        }
    }
}

/// Maximum bytes in the dump's own buffer: a piece, and a group short enough to be copied at once.
const TO_BYTES_MAX: usize = PIECE_BYTES + AHEAD_BYTES_MAX + record::GROUP_BYTES_MAX;

/// Bytes of the store's budget that a dump takes while it is made: two buffers for the copies of
/// changes, and one for its own.
pub(crate) fn dump_bytes() -> u64 {
    to_u64(2 * (KEPT_BYTES_MAX + AHEAD_BYTES_MAX) + TO_BYTES_MAX)
}

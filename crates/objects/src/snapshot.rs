//! The store as it was at one moment, while everybody goes on.
//!
//! Every group has a flag, and the store has one that all groups with objects agree with. A dump
//! turns the store's flag: that is its moment. Groups that disagree from then on are as they were;
//! the dump copies them one after the other and turns their flags. Whoever is about to change one
//! of them copies it first, under the latch that the change takes anyway, and turns its flag. A
//! change that began under its latch before the moment is in the dump, one that began after it is
//! not, and no change waits for the dump, unless what was copied for it is more than it may keep.
//!
//! A group of long objects is not copied ahead, as nobody knows how long they are: the dump writes
//! it by pieces, before others if somebody waits to change it. Its objects can be read meanwhile.
//!
//! Locking order: a group's latch, then what is kept. Nobody waits for room with a latch.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::size::to_u64;

use crate::error::ObjectError;
use crate::group::{Flag, Group, RunWord, View};
use crate::record::{self, PIECE_BYTES};
use crate::store::{Latched, ObjectStore};

/// What changes may copy ahead of a dump, in bytes; whoever comes then waits for the dump, which
/// takes as much at a time.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// A group whose objects have more bytes is written by the dump alone.
const AHEAD_BYTES_MAX: usize = PIECE_BYTES;

/// The store's flag, as a bit.
const TURNED: u8 = 1;
/// A dump is being made.
const DUMPING: u8 = 2;

/// The flag that groups are compared with, and what was copied of those that changed too early.
pub(crate) struct Snapshot {
    state: AtomicU8,
    kept: Mutex<Kept>,
    /// Somebody waits for the dump.
    hurry: AtomicBool,
    /// The group of long objects that is being written.
    writing: AtomicU64,
    drained: Condvar,
    /// One dump at a time.
    alone: Mutex<()>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    copied: Copied,
    /// Groups of long objects that somebody waits to change.
    wanted: Vec<u64>,
    /// There was no memory for a copy.
    failed: bool,
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
    fn add(&mut self, holding: &record::Holding) {
        self.objects += to_u64(holding.count());
        self.object_bytes += to_u64(holding.bytes);
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
            hurry: AtomicBool::new(false),
            writing: AtomicU64::new(u64::MAX),
            drained: Condvar::new(),
            alone: Mutex::default(),
        }
    }

    /// Whether a group cannot be changed for as long as a dump takes to write it.
    pub(crate) fn is_writing(&self, number: u64) -> bool {
        self.writing.load(Ordering::SeqCst) == number
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
    /// the dump has to come first.
    fn keep(&self, store: &ObjectStore, number: u64, group: &Group, turn: Turn) -> bool {
        let view = group.view();
        if turn.0 & DUMPING != 0 && store.is_worth_dumping(number, &view) {
            let holding = record::Holding::of(&store.slabs, &view);
            let mut kept = self.kept();
            // A dump that failed meanwhile takes no copies any more.
            if !kept.failed && self.turn().0 == turn.0 {
                let Ok(holding) = holding else {
                    kept.failed = true;
                    return false;
                };
                // What is damaged is for the dump to find, too.
                let short = holding.filter(|holding| holding.bytes <= AHEAD_BYTES_MAX);
                if short.is_none() && !kept.wanted.contains(&number) {
                    kept.wanted.push(number);
                }
                let Some(holding) = short.filter(|_| kept.bytes.len() < KEPT_BYTES_MAX) else {
                    self.hurry.store(true, Ordering::SeqCst);
                    return false;
                };
                let generations = store.table.generations_of(number);
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

    /// Waits until the dump has taken what was copied for it, and a group if it is wanted.
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
            self.snapshot.wait_for_room(number);
        }
    }

    /// Whether a latched group is anything else than one that nobody used.
    fn is_worth_dumping(&self, number: u64, view: &View) -> bool {
        let used = |generations: [u8; 64]| generations != [0; 64];
        view.present | view.marked != 0 || self.table.generations_of(number).is_some_and(used)
    }

    /// Makes this the moment of a dump; waits for one that is being made.
    pub(crate) fn cut(&self) -> Cut<'_> {
        let alone = lock(&self.snapshot.alone);
        let now = self.snapshot.state.load(Ordering::SeqCst);
        let mut bytes = Vec::new();
        // Without it, there is no memory for the first copy either.
        let _ = bytes.try_reserve_exact(KEPT_BYTES_MAX + AHEAD_BYTES_MAX);
        *self.snapshot.kept() = Kept { bytes, ..Kept::default() };
        // Who makes a group that is not among these finds the flag turned: it counts the group
        // before it looks at the flag, and here the flag is turned before groups are counted.
        let turn = Turn(now ^ TURNED | DUMPING);
        self.snapshot.state.swap(turn.0, Ordering::SeqCst);
        let mut parts = self.table.numbers(self.groups.load(Ordering::SeqCst));
        parts.reverse();
        Cut { store: self, turn, parts, copied: Copied::default(), _alone: alone }
    }
}

/// Takes bytes of a dump.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), ObjectError> + 'a;

fn flush(bytes: &mut Vec<u8>, write: &mut Sink<'_>) -> Result<(), ObjectError> {
    write(bytes)?;
    bytes.clear();
    Ok(())
}

impl Cut<'_> {
    /// Copies all groups as they were.
    pub(crate) fn copy(&mut self, write: &mut Sink<'_>) -> Result<(), ObjectError> {
        let (mut to, mut spare) = (Vec::new(), Vec::new());
        let no_memory = |_| self.store.out_of_memory(dump_bytes());
        to.try_reserve_exact(TO_BYTES_MAX).map_err(no_memory)?;
        spare.try_reserve_exact(KEPT_BYTES_MAX + AHEAD_BYTES_MAX).map_err(no_memory)?;
        while let Some(number) = self.next() {
            self.copy_group(number, &mut to, write)?;
            if to.len() >= PIECE_BYTES {
                flush(&mut to, write)?;
            }
            if self.store.snapshot.hurry.swap(false, Ordering::SeqCst) {
                self.copy_wanted(&mut to, write)?;
                // The last group in it may be written in part.
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
        let Some(group) = self.store.table.get(number) else { return Ok(()) };
        let latched = self.store.latch(group);
        let view = latched.group.view();
        if self.turn.suits(view.word) {
            return Ok(());
        }
        turn_flag(group, self.turn);
        if !self.store.is_worth_dumping(number, &view) {
            return Ok(());
        }
        let no_memory = |_| self.store.out_of_memory(dump_bytes());
        let holding = record::Holding::of(&self.store.slabs, &view).map_err(no_memory)?;
        let nowhere = || ObjectError::Damaged(format!("an object of group {number} is nowhere"));
        let holding = holding.ok_or_else(nowhere)?;
        self.copied.add(&holding);
        let generations = self.store.table.generations_of(number);
        if holding.bytes <= AHEAD_BYTES_MAX {
            let room = &mut |to: &mut Vec<u8>, bytes| to.try_reserve(bytes).map_err(no_memory);
            return holding.append(number, generations, &view, to, room);
        }
        // Nobody changes the group until all of it is written, which may be a while.
        self.store.snapshot.writing.store(number, Ordering::SeqCst);
        let _held = latched.downgrade();
        let mut room = |to: &mut Vec<u8>, bytes| {
            if to.len() + bytes > PIECE_BYTES {
                flush(to, write)?;
            }
            to.try_reserve(bytes).map_err(no_memory)
        };
        let written = holding.append(number, generations, &view, to, &mut room);
        self.store.snapshot.writing.store(u64::MAX, Ordering::SeqCst);
        written
    }

    /// Copies groups that somebody waits to change.
    fn copy_wanted(&mut self, to: &mut Vec<u8>, write: &mut Sink<'_>) -> Result<(), ObjectError> {
        loop {
            let Some(number) = self.store.snapshot.kept().wanted.last().copied() else {
                return Ok(());
            };
            self.copy_group(number, to, write)?;
            self.store.snapshot.kept().wanted.retain(|wanted| *wanted != number);
            self.store.snapshot.drained.notify_all();
        }
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

    /// Writes what others have copied, who go on with an empty buffer meanwhile.
    fn take_kept(&self, spare: &mut Vec<u8>, write: &mut Sink<'_>) -> Result<(), ObjectError> {
        let mut kept = self.store.snapshot.kept();
        if kept.failed {
            return Err(self.store.out_of_memory(dump_bytes()));
        }
        std::mem::swap(&mut kept.bytes, spare);
        drop(kept);
        self.store.snapshot.drained.notify_all();
        flush(spare, write)
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        let snapshot = &self.store.snapshot;
        // Whatever bytes were given to may have panicked.
        snapshot.writing.store(u64::MAX, Ordering::SeqCst);
        let mut kept = snapshot.kept();
        snapshot.state.fetch_and(!DUMPING, Ordering::SeqCst);
        *kept = Kept::default();
        drop(kept);
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

/// A piece, and a group that others could copy.
const TO_BYTES_MAX: usize = PIECE_BYTES + AHEAD_BYTES_MAX + record::GROUP_BYTES_MAX;

/// Bytes that a dump takes of the store's budget while it is made: what others copy, twice, and
/// what it copies itself.
pub(crate) fn dump_bytes() -> u64 {
    to_u64(2 * (KEPT_BYTES_MAX + AHEAD_BYTES_MAX) + TO_BYTES_MAX)
}

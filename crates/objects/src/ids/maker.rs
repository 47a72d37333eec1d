//! Makers: the groups in which threads create objects.

use std::sync::{Mutex, MutexGuard};

use terrace_sys::sync::lock;

use crate::error::ObjectError;
use crate::groups::Groups;
use crate::groups::free::{MIXED_LIST, REMOTE_LIST};
use crate::groups::group::{GROUP_SLOTS, Group};
use crate::groups::word::NEAR_BYTES_MAX;
use crate::threads::place;

/// Value of a group's number where there is no current group.
const NONE: u64 = u64::MAX;
/// Number of objects of one length from which on a maker gives that length groups of its own.
const OFTEN: u8 = 16;
/// Groups in a pair of cache lines, which the processor fetches together: two threads that create
/// objects in such groups are slower than one.
const GROUPS_TOGETHER: u64 = if cfg!(loom) { 1 } else { 128 / size_of::<Group>() as u64 };

/// Makers of a store, one for each group of threads.
pub(crate) struct Makers {
    all: Vec<Mutex<Maker>>,
    /// Node in the ids.
    node: u16,
}

impl Makers {
    /// Creates `places` makers without groups, for ids of a node.
    pub(crate) fn new(places: usize, node: u16) -> Self {
        Self { all: (0..places).map(|_| Mutex::new(Maker::new())).collect(), node }
    }

    /// Returns the node in the ids.
    pub(super) fn node(&self) -> u16 {
        self.node
    }

    /// Locks the maker of the calling thread.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Maker> {
        lock(&self.all[place() % self.all.len()])
    }

    /// Locks all makers.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, Maker>> {
        self.all.iter().map(lock).collect()
    }
}

/// Current groups in which a group of threads creates objects. Groups are numbered among the
/// store's own.
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
    span: std::ops::Range<u64>,
}

/// Purpose for which a maker needs a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Len(usize),
    Mixed,
    Remote,
    Reserved,
}

impl Purpose {
    /// Returns the list of the groups that suit the purpose best.
    #[inline]
    pub(super) fn list(self) -> usize {
        match self {
            Self::Len(len) => len,
            Self::Mixed | Self::Reserved => MIXED_LIST,
            Self::Remote => REMOTE_LIST,
        }
    }
}

impl Maker {
    fn new() -> Self {
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

    /// Returns the purpose of a group for an object of this length, and counts the object.
    #[inline]
    pub(super) fn purpose(&mut self, len: usize) -> Purpose {
        if len > NEAR_BYTES_MAX {
            return Purpose::Remote;
        }
        let seen = &mut self.seen[len];
        *seen = seen.saturating_add(1);
        if len > 0 && *seen >= OFTEN { Purpose::Len(len) } else { Purpose::Mixed }
    }

    #[inline]
    fn place(&mut self, purpose: Purpose) -> &mut u64 {
        match purpose {
            Purpose::Len(len) => &mut self.by_len[len],
            Purpose::Mixed => &mut self.mixed,
            Purpose::Remote => &mut self.remote,
            Purpose::Reserved => &mut self.reserved,
        }
    }

    /// Returns the current group for a purpose; takes ownership of one if there is none.
    #[inline]
    pub(super) fn group(&mut self, groups: &Groups, purpose: Purpose) -> Result<u64, ObjectError> {
        if *self.place(purpose) == NONE {
            *self.place(purpose) = self.claim(groups, purpose)?;
        }
        Ok(*self.place(purpose))
    }

    /// Resets the current group for a purpose to none; the caller ends its ownership.
    #[inline]
    pub(super) fn forget(&mut self, purpose: Purpose) {
        *self.place(purpose) = NONE;
    }

    /// Replaces the current group for a purpose by `group`, and returns the former one.
    pub(super) fn replace(&mut self, purpose: Purpose, group: u64) -> u64 {
        std::mem::replace(self.place(purpose), group)
    }

    /// Takes ownership of a group with free slots.
    fn claim(&mut self, groups: &Groups, purpose: Purpose) -> Result<u64, ObjectError> {
        if let Some(group) = groups.unlist_for(purpose.list()) {
            return Ok(group);
        }
        let fresh = self.fresh_group(groups);
        match fresh {
            Ok(group) => {
                groups.take(group);
                fresh
            }
            // Any group with free ids is better than none.
            Err(_) => groups.unlist_any().map_or(fresh, Ok),
        }
    }

    /// Returns a new group, in cache lines in which no other thread creates objects.
    fn fresh_group(&mut self, groups: &Groups) -> Result<u64, ObjectError> {
        if self.spare.is_empty() {
            let line = GROUPS_TOGETHER - groups.made() % GROUPS_TOGETHER;
            let first = groups.fresh(line);
            self.spare = match first {
                Ok(first) => first..first + line,
                // There may be room for one.
                Err(_) => groups.fresh(1).map(|first| first..first + 1)?,
            };
        }
        self.spare.next().ok_or_else(|| groups.out_of_ids())
    }

    /// Takes `count` consecutive local ids of the current group and returns the first; `None` if
    /// fewer are left.
    pub(super) fn cut_span(&mut self, count: u64) -> Option<u64> {
        let start = self.span.start;
        (self.span.end - start >= count).then(|| {
            self.span.start += count;
            start
        })
    }

    /// Makes a group of the maker's the current one for consecutive ids. Returns the one before, if
    /// there is one, whose ownership the caller ends. `skipped` is the number of its first ids that
    /// no object can have.
    pub(super) fn begin_span(&mut self, group: u64, skipped: u64) -> Option<u64> {
        let old = self.span.end;
        self.span = group * GROUP_SLOTS + skipped..(group + 1) * GROUP_SLOTS;
        (old > 0).then(|| old / GROUP_SLOTS - 1)
    }
}

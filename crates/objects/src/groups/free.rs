//! Lists of groups with free ids.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;

use crate::groups::group::View;
use crate::groups::word::{Flag, Kind, NEAR_BYTES_MAX};

/// Lists of the store's own groups with free ids and without a maker, by their contents.
pub(crate) struct FreeGroups {
    lists: Vec<List>,
}

#[derive(Default)]
struct List {
    groups: Mutex<Vec<u64>>,
    len: AtomicUsize,
}

/// List of groups without objects.
pub(crate) const EMPTY_LIST: usize = 0;
/// List of groups with objects of several lengths. Those of one length are in the list of that
/// length.
pub(crate) const MIXED_LIST: usize = NEAR_BYTES_MAX + 1;
/// List of groups with objects that have runs of their own.
pub(crate) const REMOTE_LIST: usize = NEAR_BYTES_MAX + 2;

/// Returns the list that suits the contents of a group.
pub(crate) fn list_of(view: &View) -> usize {
    match view.word.kind() {
        _ if view.present == 0 => EMPTY_LIST,
        Kind::Uniform(len) => len,
        Kind::Mixed => MIXED_LIST,
        Kind::Remote => REMOTE_LIST,
    }
}

/// Returns the flag of groups that are in a list. A group is in at most one of the lists other than
/// that of empty groups, and its contents are checked again when it is taken out.
pub(crate) fn listed_as(list: usize) -> Flag {
    if list == EMPTY_LIST { Flag::Emptied } else { Flag::Listed }
}

impl FreeGroups {
    pub(crate) fn new() -> Self {
        Self { lists: (0..=REMOTE_LIST).map(|_| List::default()).collect() }
    }

    /// Adds a group to a list. Returns false if there is no memory for that.
    pub(crate) fn push(&self, list: usize, group: u64) -> bool {
        let list = &self.lists[list];
        let mut groups = lock(&list.groups);
        let room = groups.try_reserve(1).is_ok();
        if room {
            groups.push(group);
            list.len.store(groups.len(), Ordering::Relaxed);
        }
        room
    }

    /// Takes the group that was added last out of a list.
    pub(crate) fn pop(&self, list: usize) -> Option<u64> {
        if self.is_empty(list) {
            return None;
        }
        let list = &self.lists[list];
        let mut groups = lock(&list.groups);
        let group = groups.pop();
        list.len.store(groups.len(), Ordering::Relaxed);
        group
    }

    /// Takes `count` consecutive groups out of the list of empty ones, and returns the first.
    pub(crate) fn take_empty(&self, count: u64) -> Option<u64> {
        if count == 1 {
            return self.pop(EMPTY_LIST);
        }
        let list = &self.lists[EMPTY_LIST];
        if to_u64(list.len.load(Ordering::Relaxed)) < count {
            return None;
        }
        let (mut groups, count) = (lock(&list.groups), to_usize(count));
        groups.sort_unstable();
        let row = |at: &usize| groups[at + count - 1] - groups[*at] == to_u64(count) - 1;
        let at = (0..(groups.len() + 1).saturating_sub(count)).find(row)?;
        let first = groups[at];
        groups.drain(at..at + count);
        list.len.store(groups.len(), Ordering::Relaxed);
        Some(first)
    }

    /// Returns the list with the most groups.
    pub(crate) fn longest(&self) -> usize {
        let len = |list: &usize| self.lists[*list].len.load(Ordering::Relaxed);
        (0..self.lists.len()).max_by_key(len).unwrap_or(EMPTY_LIST)
    }

    /// True if a list has no groups, or is about to have none.
    pub(crate) fn is_empty(&self, list: usize) -> bool {
        self.lists[list].len.load(Ordering::Relaxed) == 0
    }
}

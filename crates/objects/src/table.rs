//! From the number of a group to the group.
//!
//! The store's own ids are numbered from zero without gaps, so their groups lie in one flat array
//! of addresses that is filled as ids are given out. Ids of other nodes, and those far beyond what
//! was given out, are few or come in bunches: their groups lie in parts that are made on demand.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{PoisonError, RwLock};

use terrace_sys::map::Mapping;
use terrace_sys::size::{to_u64, to_usize};

use crate::error::ObjectError;
use crate::group::{GROUP_SLOTS, Group};
use crate::id::{LOCAL_BITS, ObjectId};

/// Groups of a part: 4 KiB of them.
const PART_GROUPS: u64 = 128;
/// Bytes of a part.
pub(crate) const PART_BYTES: u64 = PART_GROUPS * size_of::<Group>() as u64;

/// The groups of a store.
pub(crate) struct Table {
    own: Mapping,
    own_groups: u64,
    /// The first group of the store's own ids.
    base: u64,
    others: RwLock<HashMap<u64, Box<[Group]>>>,
}

/// The number of the group that an id is in, among those of all nodes.
#[inline]
pub(crate) fn group_of(id: ObjectId) -> u64 {
    id.to_bits() / GROUP_SLOTS
}

/// The place of an id in its group.
#[inline]
pub(crate) fn slot_of(id: ObjectId) -> u32 {
    (id.to_bits() % GROUP_SLOTS) as u32
}

/// The id at a place of a group.
pub(crate) fn id_at(group: u64, slot: u32) -> ObjectId {
    ObjectId::from_bits(group * GROUP_SLOTS + u64::from(slot))
}

impl Table {
    pub(crate) fn new(node: u16, groups: u64, huge: bool) -> Result<Self, ObjectError> {
        let own = mapped(groups, huge)?;
        let base = (u64::from(node) << LOCAL_BITS) / GROUP_SLOTS;
        Ok(Self { own, own_groups: groups, base, others: RwLock::default() })
    }

    /// The number of the store's own group `n`.
    pub(crate) fn own(&self, n: u64) -> u64 {
        self.base + n
    }

    /// Which of the store's own groups this is.
    pub(crate) fn own_number(&self, group: u64) -> Option<u64> {
        group.checked_sub(self.base).filter(|n| *n < self.own_groups)
    }

    /// How many groups of its own the store can have.
    pub(crate) fn own_groups(&self) -> u64 {
        self.own_groups
    }

    /// A group, if an object can be in it.
    #[inline]
    pub(crate) fn get(&self, group: u64) -> Option<&Group> {
        let n = group.wrapping_sub(self.base);
        if n < self.own_groups {
            // SAFETY: the mapping has `own_groups` groups; see `group_at`.
            return Some(unsafe { group_at(&self.own, n) });
        }
        self.other(group)
    }

    /// Asks for the memory of a group ahead of its use.
    #[inline]
    pub(crate) fn address(&self, group: u64) -> *const Group {
        let n = group.wrapping_sub(self.base).min(self.own_groups - 1);
        self.own.as_ptr().cast::<Group>().wrapping_add(to_usize(n)).cast_const()
    }

    #[cold]
    fn other(&self, group: u64) -> Option<&Group> {
        let parts = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let part = parts.get(&(group / PART_GROUPS))?;
        let group = part.get(to_usize(group % PART_GROUPS))?;
        // SAFETY: parts are dropped with the table only, and their memory does not move when the
        // map's entries do.
        Some(unsafe { &*std::ptr::from_ref(group) })
    }

    /// A group, and whether a part was made for it.
    pub(crate) fn get_or_make(&self, group: u64) -> (bool, &Group) {
        let mut made = false;
        if self.get(group).is_none() {
            let mut parts = self.others.write().unwrap_or_else(PoisonError::into_inner);
            if let Entry::Vacant(place) = parts.entry(group / PART_GROUPS) {
                place.insert((0..PART_GROUPS).map(|_| Group::default()).collect());
                made = true;
            }
        }
        (made, self.get(group).unwrap_or_else(|| unreachable!("made just now")))
    }

    /// The numbers of all groups that were ever used, given how many of the store's own were.
    pub(crate) fn numbers(&self, own: u64) -> Vec<std::ops::Range<u64>> {
        let parts = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let mut starts: Vec<u64> = parts.keys().map(|part| part * PART_GROUPS).collect();
        starts.sort_unstable();
        let others = starts.into_iter().map(|start| start..start + PART_GROUPS);
        std::iter::once(self.base..self.base + own).chain(others).collect()
    }

    /// Bytes of groups, given how many of the store's own were used.
    pub(crate) fn bytes(&self, own: u64) -> u64 {
        let parts = self.others.read().unwrap_or_else(PoisonError::into_inner);
        (own + to_u64(parts.len()) * PART_GROUPS) * to_u64(size_of::<Group>())
    }
}

fn mapped(groups: u64, huge: bool) -> Result<Mapping, ObjectError> {
    let bytes = to_usize(groups) * size_of::<Group>();
    let failed =
        |source| ObjectError::Memory { what: "addresses for the table".to_owned(), source };
    let mapping = Mapping::reserve(bytes).map_err(failed)?;
    if huge {
        // Without them the table is walked more slowly, and right.
        let _ = mapping.advise_huge(true);
    }
    Ok(mapping)
}

/// # Safety
/// `n` must be below the number of groups that the mapping was made for.
#[inline]
unsafe fn group_at(mapping: &Mapping, n: u64) -> &Group {
    // SAFETY: in bounds by the caller's promise; a mapping is aligned to pages and zero at first,
    // which is an empty group, and groups are made of atomics alone.
    unsafe { &*mapping.as_ptr().cast::<Group>().add(to_usize(n)) }
}

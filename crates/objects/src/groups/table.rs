//! Table of groups, by number.
//!
//! The store's own ids are numbered from zero without gaps, so their groups lie in one flat array
//! of addresses that is filled as ids are given out. Ids of other nodes, and those far beyond what
//! was given out, are few or clustered: their groups lie in parts that are made on demand.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU8, Ordering};

use terrace_sys::map::Mapping;
use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::{read, write};

use crate::config::ObjectConfig;
use crate::error::ObjectError;
use crate::groups::group::{GROUP_SLOTS, Group, View};
use crate::id::{LOCAL_BITS, ObjectId};

/// Groups of a part: 4 KiB of them, and 8 KiB of generations if ids have those.
const PART_GROUPS: u64 = 128;

/// Table of the groups of a store, with the generations of ids if they have any.
pub(crate) struct Table {
    own: Mapping,
    own_groups: u64,
    /// As many as `own_groups`, or none if ids have generations.
    plain_groups: u64,
    /// Number of the first group of the store's own ids.
    base: u64,
    others: RwLock<HashMap<u64, Part>>,
    /// For each of the store's own ids, the number of objects that had its slot before.
    generations: Option<Mapping>,
    /// Mask of an id without its generation.
    place_bits: u64,
}

/// Some groups of ids of other nodes, with the generations of the ids if there are any.
struct Part {
    groups: Box<[Group]>,
    generations: Box<[AtomicU8]>,
}

/// Resolved slot of an id: the group, the position in it, and the generation.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    number: u64,
    group: &'a Group,
    index: u32,
    /// Generation of the id, and that of the slot now; none if ids have none.
    generation: Option<(u8, &'a AtomicU8)>,
}

impl<'a> Slot<'a> {
    /// Number of the group.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the group.
    #[inline]
    pub(crate) fn group(&self) -> &'a Group {
        self.group
    }

    /// Position in the group.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// True if the slot has an object and the id is its id.
    #[inline]
    pub(crate) fn is_present(&self, view: &View) -> bool {
        view.is_present(self.index) && self.is_current()
    }

    /// True if the id is reserved.
    pub(crate) fn is_reserved(&self, view: &View) -> bool {
        view.reserved_slots() >> self.index & 1 != 0 && self.is_current()
    }

    /// True if the generation of the id is that of the slot.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.generation.is_none_or(|(own, current)| own == current.load(Ordering::Relaxed))
    }

    /// Gives the slot the generation of the id, under the latch of the group.
    pub(crate) fn make_current(&self) {
        if let Some((own, current)) = self.generation {
            current.store(own, Ordering::Relaxed);
        }
    }

    /// Ends the current id of the slot, which gets the next generation, under the latch of the
    /// group. Returns false if it has none, which retires the slot.
    #[inline]
    pub(crate) fn end_generation(&self) -> bool {
        let Some((_, generation)) = self.generation else { return true };
        let next = generation.load(Ordering::Relaxed).saturating_add(1);
        generation.store(next, Ordering::Relaxed);
        next < RETIRED
    }

    /// True if the slot is retired, after the ids of 255 objects.
    pub(crate) fn is_worn_out(&self) -> bool {
        self.generation.is_some_and(|(_, now)| now.load(Ordering::Relaxed) == RETIRED)
    }
}

/// Returns the position of an id in its group, 0 to 63.
#[inline]
pub(crate) fn slot_of(id: ObjectId) -> u32 {
    (id.to_bits() % GROUP_SLOTS) as u32
}

/// Lowest bit of the generation, in stores whose ids have one.
const GENERATION_SHIFT: u32 = 40;
/// Generation of retired slots; no id has it.
const RETIRED: u8 = u8::MAX;

impl Table {
    pub(crate) fn new(config: &ObjectConfig, groups: u64) -> Result<Self, ObjectError> {
        let mut groups = groups;
        let (mut generations, mut place_bits) = (None, u64::MAX);
        if config.generations {
            groups = groups.min((1 << GENERATION_SHIFT) / GROUP_SLOTS);
            place_bits = !(u64::from(u8::MAX) << GENERATION_SHIFT);
            generations = Some(mapped(to_usize(groups * GROUP_SLOTS), config.huge_pages)?);
        }
        Ok(Self {
            own: mapped(to_usize(groups) * size_of::<Group>(), config.huge_pages)?,
            own_groups: groups,
            plain_groups: if config.generations { 0 } else { groups },
            base: (u64::from(config.node) << LOCAL_BITS) / GROUP_SLOTS,
            others: RwLock::default(),
            generations,
            place_bits,
        })
    }

    /// Returns the number of the group that an id is in, among those of all nodes.
    #[inline]
    pub(crate) fn group_of(&self, id: ObjectId) -> u64 {
        (id.to_bits() & self.place_bits) / GROUP_SLOTS
    }

    /// Returns an id's position in the order of ids, whatever its generation.
    pub(crate) fn order_of(&self, id: ObjectId) -> u64 {
        id.to_bits() & self.place_bits
    }

    /// Returns the current id of a slot.
    #[inline]
    pub(crate) fn id_at(&self, group: u64, slot: u32) -> ObjectId {
        let place = group * GROUP_SLOTS + u64::from(slot);
        let generation = u64::from(self.generation(group, slot));
        ObjectId::from_bits(place | generation << GENERATION_SHIFT)
    }

    /// True if ids have generations.
    #[inline]
    pub(crate) fn has_generations(&self) -> bool {
        self.generations.is_some()
    }

    /// Returns the generation of a slot; zero if there are none.
    #[inline]
    pub(crate) fn generation(&self, group: u64, slot: u32) -> u8 {
        self.generation_at(group, slot).map_or(0, |it| it.load(Ordering::Relaxed))
    }

    /// Sets the generation of a slot, under the latch of its group.
    pub(crate) fn set_generation(&self, group: u64, slot: u32, generation: u8) {
        if let Some(current) = self.generation_at(group, slot) {
            current.store(generation, Ordering::Relaxed);
        }
    }

    /// True if an id has the generation of retired slots.
    pub(crate) fn is_retired(&self, id: ObjectId) -> bool {
        self.has_generations() && generation_of(id) == RETIRED
    }

    /// Returns the generations of all slots of a group, if there are any.
    pub(crate) fn generations_of(&self, group: u64) -> Option<[u8; 64]> {
        let all = || {
            let mut all = [0; 64];
            (0..).zip(&mut all).for_each(|(slot, place)| *place = self.generation(group, slot));
            all
        };
        self.has_generations().then(all)
    }

    /// Returns the place of a slot's generation, if the group exists and ids have generations.
    #[inline]
    fn generation_at(&self, group: u64, slot: u32) -> Option<&AtomicU8> {
        let generations = self.generations.as_ref()?;
        let n = group.wrapping_sub(self.base);
        if n < self.own_groups {
            let at = to_usize(n * GROUP_SLOTS) + slot as usize;
            // SAFETY: the mapping has a byte for each slot of the `own_groups` groups, zero at
            // first, which are accessed as atomics alone.
            return Some(unsafe { &*generations.as_ptr().add(at).cast::<AtomicU8>() });
        }
        self.other_generation(group, slot)
    }

    #[cold]
    fn other_generation(&self, group: u64, slot: u32) -> Option<&AtomicU8> {
        let parts = read(&self.others);
        let place = to_usize(group % PART_GROUPS * GROUP_SLOTS) + slot as usize;
        let generation = parts.get(&(group / PART_GROUPS))?.generations.get(place)?;
        // SAFETY: as in `other`.
        Some(unsafe { &*std::ptr::from_ref(generation) })
    }

    /// Returns the number of the store's own group `n`.
    #[inline]
    pub(crate) fn own(&self, n: u64) -> u64 {
        self.base + n
    }

    /// Returns the index of a group among the store's own.
    #[inline]
    pub(crate) fn own_number(&self, group: u64) -> Option<u64> {
        group.checked_sub(self.base).filter(|n| *n < self.own_groups)
    }

    /// Most groups of its own that the store can have.
    pub(crate) fn own_groups(&self) -> u64 {
        self.own_groups
    }

    /// Returns the group of this number among those of all nodes, if it exists.
    #[inline]
    pub(crate) fn get(&self, group: u64) -> Option<&Group> {
        let n = group.wrapping_sub(self.base);
        if n < self.own_groups {
            // SAFETY: the mapping has `own_groups` groups; see `group_at`.
            return Some(unsafe { group_at(&self.own, n) });
        }
        self.other(group)
    }

    /// Returns the slot of an id, if its group exists.
    #[inline(always)]
    pub(crate) fn find(&self, id: ObjectId) -> Option<Slot<'_>> {
        let (number, index) = (self.group_of(id), slot_of(id));
        let group = self.get(number)?;
        Some(self.slot(number, group, index, generation_of(id)))
    }

    /// Returns the slot of a group's current id at a position.
    #[inline]
    pub(crate) fn current<'a>(&'a self, number: u64, group: &'a Group, index: u32) -> Slot<'a> {
        self.slot(number, group, index, self.generation(number, index))
    }

    #[inline]
    fn slot<'a>(&'a self, number: u64, group: &'a Group, index: u32, own: u8) -> Slot<'a> {
        let generation = self.generation_at(number, index).map(|current| (own, current));
        Slot { number, group, index, generation }
    }

    /// Bytes of a group: its entry, and the generations of its ids if they have any.
    pub(crate) fn group_bytes(&self) -> u64 {
        to_u64(size_of::<Group>()) + if self.has_generations() { GROUP_SLOTS } else { 0 }
    }

    /// Bytes of a part of groups beyond the store's own.
    pub(crate) fn part_bytes(&self) -> u64 {
        PART_GROUPS * self.group_bytes()
    }

    /// Returns the group of one of the store's own ids, if ids have no generations: the fast path
    /// of most operations.
    #[inline]
    pub(crate) fn plain(&self, id: ObjectId) -> Option<&Group> {
        let n = (id.to_bits() / GROUP_SLOTS).wrapping_sub(self.base);
        // SAFETY: the mapping has `own_groups` groups, which are no fewer; see `group_at`.
        (n < self.plain_groups).then(|| unsafe { group_at(&self.own, n) })
    }

    /// Returns the address of a group to prefetch; of groups beyond the store's own, that of
    /// another.
    #[inline]
    pub(crate) fn address(&self, group: u64) -> *const Group {
        let n = group.wrapping_sub(self.base).min(self.own_groups - 1);
        self.own.as_ptr().cast::<Group>().wrapping_add(to_usize(n)).cast_const()
    }

    #[cold]
    fn other(&self, group: u64) -> Option<&Group> {
        let parts = read(&self.others);
        let part = parts.get(&(group / PART_GROUPS))?;
        let group = part.groups.get(to_usize(group % PART_GROUPS))?;
        // SAFETY: parts are dropped with the table only, and their memory does not move when the
        // map's entries do.
        Some(unsafe { &*std::ptr::from_ref(group) })
    }

    /// Returns a group, which is made if it does not exist, and true if a part was made for it.
    pub(crate) fn get_or_make(&self, group: u64) -> (bool, &Group) {
        let mut made = false;
        if self.get(group).is_none() {
            let mut parts = write(&self.others);
            if let Entry::Vacant(place) = parts.entry(group / PART_GROUPS) {
                let generations =
                    if self.has_generations() { PART_GROUPS * GROUP_SLOTS } else { 0 };
                place.insert(Part {
                    groups: (0..PART_GROUPS).map(|_| Group::default()).collect(),
                    generations: (0..generations).map(|_| AtomicU8::new(0)).collect(),
                });
                made = true;
            }
        }
        (made, self.get(group).unwrap_or_else(|| unreachable!("made just now")))
    }

    /// Returns the numbers of all groups that were ever used, if `own` of the store's own were.
    pub(crate) fn numbers(&self, own: u64) -> Vec<std::ops::Range<u64>> {
        let parts = read(&self.others);
        let mut starts: Vec<u64> = parts.keys().map(|part| part * PART_GROUPS).collect();
        starts.sort_unstable();
        let others = starts.into_iter().map(|start| start..start + PART_GROUPS);
        std::iter::once(self.base..self.base + own).chain(others).collect()
    }

    /// Bytes of groups and of the generations of their ids, if `own` of the store's own groups were
    /// used.
    pub(crate) fn bytes(&self, own: u64) -> u64 {
        let parts = read(&self.others);
        (own + to_u64(parts.len()) * PART_GROUPS) * self.group_bytes()
    }
}

/// Returns the generation in an id, for stores whose ids have one.
fn generation_of(id: ObjectId) -> u8 {
    id.to_bits().to_le_bytes()[5]
}

fn mapped(bytes: usize, huge: bool) -> Result<Mapping, ObjectError> {
    let failed =
        |source| ObjectError::Memory { what: "addresses for the table".to_owned(), source };
    let mapping = Mapping::reserve(bytes).map_err(failed)?;
    if huge {
        // Without huge pages everything works, but walks of the table are slower.
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

//! The table of spaces: ids, names, resident bytes and grants.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::array::{Zeroed, ZeroedArray};
use crate::owner::Owner;
use crate::page_ids::SpaceIds;
use crate::stats::SpaceStats;
use crate::sync::lock;

/// Maximum number of spaces of a pool; a frame stores its space in 32 bits, and the table is small.
pub(crate) const SPACES_MAX: usize = 1 << 16;

/// Resident bytes and grant of a space, read by eviction.
#[derive(Debug)]
struct SpaceUse {
    resident: AtomicU64,
    grant: AtomicU64,
}

// SAFETY: atomics alone, valid as zeroes, nothing to drop.
unsafe impl Zeroed for SpaceUse {}

/// Identity of a live space, and its page ids.
#[derive(Debug)]
pub(crate) struct SpaceRecord {
    owner: Owner,
    name: String,
    ids: SpaceIds,
}

impl SpaceRecord {
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn ids(&self) -> &SpaceIds {
        &self.ids
    }
}

/// Resident bytes and grants by space id, and the records of live spaces.
#[derive(Debug)]
pub(crate) struct SpaceTable {
    uses: ZeroedArray<SpaceUse>,
    begun: AtomicU32,
    /// Ids of dropped spaces, reused when their last pinned page is gone.
    free: Mutex<VecDeque<u32>>,
    serial: AtomicU32,
    live: Mutex<HashMap<u32, Arc<SpaceRecord>>>,
}

impl SpaceTable {
    pub(crate) fn reserve() -> io::Result<Self> {
        Ok(Self {
            uses: ZeroedArray::reserve(SPACES_MAX)?,
            begun: AtomicU32::new(1),
            free: Mutex::default(),
            serial: AtomicU32::new(0),
            live: Mutex::default(),
        })
    }

    fn of(&self, space: u32) -> &SpaceUse {
        match self.uses.get(space as usize) {
            Some(uses) => uses,
            None => unreachable!("space {space} of {SPACES_MAX}"),
        }
    }

    /// Adds a page of the space that came into memory.
    pub(crate) fn came(&self, space: u32, bytes: u64) {
        self.of(space).resident.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts a page of the space that left memory.
    pub(crate) fn left(&self, space: u32, bytes: u64) {
        self.of(space).resident.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn resident(&self, space: u32) -> u64 {
        self.of(space).resident.load(Ordering::Relaxed)
    }

    pub(crate) fn grant(&self, space: u32) -> Option<u64> {
        self.of(space).grant.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Resident bytes divided by the grant; 0 without a grant.
    pub(crate) fn grant_use(&self, space: u32) -> f64 {
        let grant = self.grant(space);
        grant.map_or(0.0, |grant| self.resident(space) as f64 / grant.max(1) as f64)
    }

    pub(crate) fn set_grant(&self, space: u32, grant: Option<u64>) {
        let word = grant.map_or(0, |grant| grant.saturating_add(1));
        self.of(space).grant.store(word, Ordering::Relaxed);
    }

    fn reuse(&self) -> Option<u32> {
        let mut free = lock(&self.free);
        // Ids whose pages are still pinned go to the back of the queue, so that eight of them do
        // not hide the others for ever.
        for _ in 0..free.len().min(8) {
            let id = free.pop_front()?;
            if self.resident(id) == 0 {
                return Some(id);
            }
            free.push_back(id);
        }
        None
    }

    fn take_id(&self) -> Option<u32> {
        self.reuse().or_else(|| {
            let next = |id: u32| ((id as usize) < SPACES_MAX).then_some(id + 1);
            self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
        })
    }

    /// Registers a space; `None` if all ids from 1 to [`SPACES_MAX`] - 1 are in use, by live spaces
    /// or by dropped spaces with pages in memory.
    pub(crate) fn open(&self, name: &str, grant: Option<u64>) -> Option<Arc<SpaceRecord>> {
        let id = self.take_id()?;
        self.set_grant(id, grant);
        let owner = Owner::new(id, self.serial.fetch_add(1, Ordering::Relaxed));
        let record =
            Arc::new(SpaceRecord { owner, name: name.to_owned(), ids: SpaceIds::default() });
        lock(&self.live).insert(id, Arc::clone(&record));
        Some(record)
    }

    /// Removes a space that is being dropped. Its id is not reused before
    /// [`SpaceTable::put_back`].
    pub(crate) fn close(&self, owner: Owner) {
        lock(&self.live).remove(&owner.space());
    }

    /// Takes back the id of a dropped space.
    pub(crate) fn put_back(&self, owner: Owner) {
        lock(&self.free).push_back(owner.space());
    }

    /// Returns the record of a live space, checked by its serial number: another space may have its
    /// id by now.
    pub(crate) fn find(&self, owner: Owner) -> Option<Arc<SpaceRecord>> {
        let found = lock(&self.live).get(&owner.space()).map(Arc::clone);
        found.filter(|space| space.owner == owner)
    }

    /// Returns the name of a space, for an error.
    pub(crate) fn name(&self, owner: Owner) -> String {
        self.find(owner).map_or_else(|| "a dropped space".to_owned(), |space| space.name.clone())
    }

    /// Returns the statistics of all live spaces, sorted by name.
    pub(crate) fn stats(&self) -> Vec<SpaceStats> {
        let spaces: Vec<_> = lock(&self.live).values().map(Arc::clone).collect();
        let stats = spaces.iter().map(|space| SpaceStats {
            name: space.name.clone(),
            resident_bytes: self.resident(space.owner.space()),
            grant_bytes: self.grant(space.owner.space()),
        });
        let mut stats: Vec<_> = stats.collect();
        stats.sort_by(|a, b| a.name.cmp(&b.name));
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_spaces_hide_no_free_ids() {
        let table = SpaceTable::reserve().expect("address space");
        let ids: Vec<u32> = (0..12).filter_map(|_| table.take_id()).collect();
        ids[..11].iter().for_each(|id| table.came(*id, 4096));
        lock(&table.free).extend(&ids);
        assert!((0..2).any(|_| table.reuse() == Some(ids[11])), "the second look is at the others");
    }
}

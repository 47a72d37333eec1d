//! Breakdown of a read into its steps, for benchmarks. Other code should not use it.
//!
//! A clock takes as long as a read, so the steps are not timed one by one: the same reads are done
//! up to each step, and the time of a step is the difference. The loops are in this crate and not
//! with their callers, so that they are compiled like the store.

use std::hint::black_box;
use std::ptr::from_ref;

use terrace_sys::size::to_u64;

use crate::bytes;
use crate::groups::Groups;
use crate::groups::group::View;
use crate::groups::table::slot_of;
use crate::id::ObjectId;
use crate::store::ObjectStore;

/// Last step that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// No step: the ids are read.
    Ids,
    /// The address of the group is computed from the id.
    Group,
    /// The version of the group's latch is read.
    Version,
    /// The location of the object is computed from the group.
    Place,
    /// The object is copied.
    Copy,
    /// The version is checked for changes.
    Confirm,
    /// The whole of [`ObjectStore::get`].
    Get,
}

impl Part {
    /// All steps in order; each includes the ones before.
    pub const ALL: [Part; 7] =
        [Part::Ids, Part::Group, Part::Version, Part::Place, Part::Copy, Part::Confirm, Part::Get];
}

/// Reads objects up to a step, to the beginning of `to`, which has room for the longest. Returns a
/// value that depends on everything that was read. If `chained`, each read begins when the one
/// before has ended; otherwise the processor overlaps several.
#[inline(never)]
pub fn read(
    store: &ObjectStore,
    ids: &[ObjectId],
    part: Part,
    chained: bool,
    to: &mut [u8],
) -> u64 {
    let groups = store.objects().groups();
    match part {
        Part::Ids => each(ids, chained, ObjectId::to_bits),
        Part::Group => each(ids, chained, |id| {
            let group = groups.table().get(groups.table().group_of(id));
            group.map_or(0, |group| to_u64(from_ref(group).addr()))
        }),
        Part::Version => each(ids, chained, |id| version(groups, id).unwrap_or(0)),
        Part::Place => each(ids, chained, |id| place(groups, id).unwrap_or(0)),
        Part::Copy => each(ids, chained, |id| copy(groups, id, to, false).unwrap_or(0)),
        Part::Confirm => each(ids, chained, |id| copy(groups, id, to, true).unwrap_or(0)),
        Part::Get => each(ids, chained, |id| match store.get(id, to) {
            Ok(len) => ends(&to[..len]),
            Err(_) => 0,
        }),
    }
}

#[inline(always)]
fn each(ids: &[ObjectId], chained: bool, mut step: impl FnMut(ObjectId) -> u64) -> u64 {
    // Hides from the compiler that a read does not change the next id.
    let (nothing, mut seen) = (black_box(0_u64), 0);
    if chained {
        for id in ids {
            seen ^= step(ObjectId::from_bits(id.to_bits() ^ (seen & nothing)));
        }
    } else {
        for id in ids {
            seen ^= step(*id);
        }
    }
    black_box(seen)
}

/// Reads the version and returns another word of the group, which is in the same cache line.
#[inline(always)]
fn version(groups: &Groups, id: ObjectId) -> Option<u64> {
    let group = groups.table().get(groups.table().group_of(id))?;
    group.version()?;
    Some(group.view().present)
}

#[inline(always)]
fn place(groups: &Groups, id: ObjectId) -> Option<u64> {
    let group = groups.table().get(groups.table().group_of(id))?;
    group.version()?;
    let (at, len) = find(groups, group.view(), id)?;
    Some(to_u64(at.addr()) ^ to_u64(len))
}

#[inline(always)]
fn copy(groups: &Groups, id: ObjectId, to: &mut [u8], confirm: bool) -> Option<u64> {
    let group = groups.table().get(groups.table().group_of(id))?;
    let seen = group.version()?;
    let (at, len) = find(groups, group.view(), id)?;
    let to = to.get_mut(..len)?;
    // SAFETY: both ways to find an object check that it lies in the slabs, which are mapped as long
    // as the store; concurrent writes to them go through `bytes`.
    unsafe { bytes::read(at, to) };
    if confirm && !group.is_still(seen) {
        return None;
    }
    Some(ends(to))
}

#[inline(always)]
fn find(groups: &Groups, view: View, id: ObjectId) -> Option<(*const u8, usize)> {
    let plainly = view.find_plainly(groups.slabs(), slot_of(id));
    plainly.or_else(|| find_slowly(groups, view, id))
}

#[cold]
#[inline(never)]
fn find_slowly(groups: &Groups, view: View, id: ObjectId) -> Option<(*const u8, usize)> {
    let found = view.is_present(slot_of(id)).then(|| view.find(groups.slabs(), slot_of(id)));
    found.flatten().map(|found| (found.at.cast_const(), found.len))
}

/// Returns a mix of the first bytes of an object and its last.
#[inline(always)]
fn ends(bytes: &[u8]) -> u64 {
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    word(bytes.first_chunk()) ^ word(bytes.last_chunk()).rotate_left(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, ObjectConfig};

    #[test]
    fn reads_up_to_the_copy_see_what_a_get_sees() {
        let memory = Backing::Dram { bytes: 16 << 20 };
        let store = ObjectStore::new(ObjectConfig::new("parts", memory)).expect("room");
        for len in [32, 5000] {
            let one = |n: u8| store.create_with(&vec![n; len]).expect("room");
            let ids: Vec<ObjectId> = (1..98).map(one).collect();
            let mut to = vec![0; len];
            for chained in [false, true] {
                let [.., copied, confirmed, got] =
                    Part::ALL.map(|part| read(&store, &ids, part, chained, &mut to));
                assert!(copied != 0 && copied == confirmed && copied == got, "{len} {chained}");
            }
        }
    }
}

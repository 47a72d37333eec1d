//! Statistics of a store, and its consistency check.

use terrace_sys::size::to_u64;

use crate::error::ObjectError;
use crate::groups::Groups;
use crate::groups::group::{GROUP_SLOTS, Group, Latched};
use crate::groups::run::Run;
use crate::groups::word::Kind;
use crate::id::ObjectId;
use crate::store::ObjectStore;

/// Contents of a store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// Name of the store.
    pub name: String,
    /// Memory of the objects: `dram`, `node` or `region`.
    pub memory: &'static str,
    /// Number of objects.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Reserved ids without an object.
    pub reserved: u64,
    /// Retired slots of ids, of stores whose ids have generations: each had 255 objects, gets no
    /// other, and keeps 1.5 bytes of the table. See
    /// [`ObjectConfig::generations`](crate::ObjectConfig::generations).
    pub retired: u64,
    /// Number of ids of this store in its table, in use or free: 64 for each group that was made.
    pub ids: u64,
    /// Bytes of the table, including the generations of ids.
    pub table_bytes: u64,
    /// Bytes of the runs that hold the objects.
    pub used_bytes: u64,
    /// Bytes of the slabs that hold the runs.
    pub held_bytes: u64,
    /// Objects that are locked or pinned.
    pub held: u64,
}

/// Result of [`ObjectStore::check`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Groups whose objects have one length.
    pub uniform: u64,
    /// Groups of objects of several lengths.
    pub mixed: u64,
    /// Groups whose objects have runs of their own.
    pub remote: u64,
}

impl ObjectStore {
    /// Returns the statistics of the store. The counters of threads are read one after the other,
    /// so they may not be of exactly one moment.
    #[must_use]
    pub fn stats(&self) -> ObjectStats {
        let (groups, natural) = (self.objects().groups(), |n| u64::try_from(n).unwrap_or(0));
        let (counts, made) = (groups.counts(), groups.made());
        ObjectStats {
            name: self.name().to_owned(),
            memory: self.config().memory.kind(),
            objects: natural(counts.objects()),
            object_bytes: natural(counts.bytes()),
            reserved: natural(counts.reserved()),
            retired: natural(counts.retired()),
            ids: made * GROUP_SLOTS,
            table_bytes: groups.table().bytes(made),
            used_bytes: groups.slabs().used_bytes(),
            held_bytes: groups.slabs().held_bytes(),
            held: self.held(),
        }
    }

    /// Walks the whole store and checks that every object lies in memory that is marked as used,
    /// that no two objects overlap, that all memory marked as used belongs to an object, and that
    /// the counters of objects and of their bytes are right.
    ///
    /// All operations wait until it has ended, some 10 ms for a million objects.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`] with the first inconsistency found.
    pub fn check(&self) -> Result<Checked, ObjectError> {
        let check = |groups: &[(u64, Latched<'_>)], runs| self.check_latched(groups, runs);
        let checked = self.objects().at_rest(|| self.makers().lock_all(), check);
        checked.map_err(ObjectError::Damaged)
    }

    /// Checks the latched groups. `runs` are those of objects that no group has yet.
    fn check_latched(
        &self,
        latched: &[(u64, Latched<'_>)],
        mut runs: Vec<Run>,
    ) -> Result<Checked, String> {
        let groups = self.objects().groups();
        let mut checked = Checked::default();
        for (number, latched) in latched {
            check_group(groups, *number, latched.group(), &mut checked, &mut runs)?;
        }
        groups.slabs().check(runs.into_iter())?;
        let stats = self.stats();
        let counted = (stats.objects, stats.object_bytes);
        if counted != (checked.objects, checked.object_bytes) {
            return Err(format!(
                "(objects, bytes) are {checked:?} and were counted as {counted:?}"
            ));
        }
        Ok(checked)
    }

    /// Returns the ids of at most `max` objects, in the order of their groups and slots, beginning
    /// with `from`: of each group, the objects present when the group was read.
    #[must_use]
    pub fn ids(&self, from: ObjectId, max: usize) -> Vec<ObjectId> {
        self.ids_in_order(self.objects().groups().table().order_of(from), max)
    }

    /// Returns the ids of objects behind `last`, in the order of [`ObjectStore::ids`]: the last id
    /// of one call continues the iteration in the next.
    #[must_use]
    pub fn ids_after(&self, last: ObjectId, max: usize) -> Vec<ObjectId> {
        let next = self.objects().groups().table().order_of(last).checked_add(1);
        next.map_or_else(Vec::new, |next| self.ids_in_order(next, max))
    }

    fn ids_in_order(&self, from: u64, max: usize) -> Vec<ObjectId> {
        let (mut ids, groups) = (Vec::new(), self.objects().groups());
        let table = groups.table();
        for numbers in self.sorted_numbers() {
            let order = |id| table.order_of(id);
            let first = (from / GROUP_SLOTS).max(numbers.start);
            for number in first..numbers.end.max(first) {
                let Some(group) = table.get(number) else { continue };
                let view = groups.settled(group);
                let here = view
                    .slots()
                    .map(|slot| table.id_at(number, slot))
                    .filter(|id| order(*id) >= from);
                ids.extend(here.take(max - ids.len()));
                if ids.len() == max {
                    return ids;
                }
            }
        }
        ids
    }

    /// Returns the ids of all objects as ranges, both ends included, in order.
    #[must_use]
    pub fn id_ranges(&self) -> Vec<(ObjectId, ObjectId)> {
        let groups = self.objects().groups();
        let mut ranges: Vec<(ObjectId, ObjectId)> = Vec::new();
        for number in self.sorted_numbers().into_iter().flatten() {
            let Some(group) = groups.table().get(number) else { continue };
            for slot in groups.settled(group).slots() {
                let id = groups.table().id_at(number, slot);
                match ranges.last_mut() {
                    Some((_, last))
                        if last.to_bits() + 1 == id.to_bits() && last.node() == id.node() =>
                    {
                        *last = id;
                    }
                    _ => ranges.push((id, id)),
                }
            }
        }
        ranges
    }

    fn sorted_numbers(&self) -> Vec<std::ops::Range<u64>> {
        let mut numbers = self.objects().groups().numbers();
        numbers.sort_unstable_by_key(|numbers| numbers.start);
        numbers
    }
}

/// Checks a latched group, and adds its runs to `runs`.
fn check_group(
    groups: &Groups,
    number: u64,
    group: &Group,
    checked: &mut Checked,
    runs: &mut Vec<Run>,
) -> Result<(), String> {
    let view = group.view();
    let run = view.word.run();
    if (view.present == 0) != (run.len == 0) {
        return Err(format!("group {number} has objects {:x} and {run:?}", view.present));
    }
    if view.present == 0 {
        return Ok(());
    }
    match view.word.kind() {
        Kind::Uniform(_) => checked.uniform += 1,
        Kind::Mixed => checked.mixed += 1,
        Kind::Remote => checked.remote += 1,
    }
    runs.push(run);
    for slot in view.slots() {
        let Some(found) = view.find(groups.slabs(), slot) else {
            return Err(format!("object {} is nowhere", groups.table().id_at(number, slot)));
        };
        runs.extend(found.far);
        checked.objects += 1;
        checked.object_bytes += to_u64(found.len);
    }
    Ok(())
}

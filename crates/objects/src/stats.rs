//! What a store holds, and whether it is in order.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::error::ObjectError;
use crate::group::{GROUP_SLOTS, Group, Kind, View};
use crate::id::ObjectId;
use crate::store::{Latched, ObjectStore};

/// What a store holds, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// Its name.
    pub name: String,
    /// Where the bytes of objects live: `dram`, `node` or `region`.
    pub memory: &'static str,
    /// Objects.
    pub objects: u64,
    /// Bytes of them.
    pub object_bytes: u64,
    /// Ids that are reserved and have no object.
    pub reserved: u64,
    /// Places of ids that 255 objects wore out, where ids have generations: no object has them
    /// again, and each keeps 1.5 bytes of the table. See
    /// [`ObjectConfig::generations`](crate::ObjectConfig::generations).
    pub retired: u64,
    /// Ids of its own that were given out at some time; they are used again.
    pub ids: u64,
    /// Bytes of the table, the generations of ids included.
    pub table_bytes: u64,
    /// Bytes of the runs that hold the objects.
    pub used_bytes: u64,
    /// Bytes of the slabs that the runs are in.
    pub held_bytes: u64,
    /// Objects that are locked or pinned.
    pub held: u64,
}

/// What [`ObjectStore::check`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Objects.
    pub objects: u64,
    /// Bytes of them.
    pub object_bytes: u64,
    /// Groups of objects of one length each.
    pub uniform: u64,
    /// Groups of objects of several lengths.
    pub mixed: u64,
    /// Groups of objects with runs of their own.
    pub remote: u64,
}

impl ObjectStore {
    /// What the store holds. Counts of threads are read one after the other.
    #[must_use]
    pub fn stats(&self) -> ObjectStats {
        let sum = |of: fn(&crate::store::Counters) -> i64| {
            u64::try_from(self.counters.iter().map(of).sum::<i64>()).unwrap_or(0)
        };
        let groups = self.groups.load(Ordering::Relaxed);
        ObjectStats {
            name: self.config.name.clone(),
            memory: self.config.memory.kind(),
            objects: sum(|it| it.objects.load(Ordering::Relaxed)),
            object_bytes: sum(|it| it.bytes.load(Ordering::Relaxed)),
            reserved: sum(|it| it.reserved.load(Ordering::Relaxed)),
            retired: sum(|it| it.retired.load(Ordering::Relaxed)),
            ids: groups * GROUP_SLOTS,
            table_bytes: self.table.bytes(groups),
            used_bytes: self.slabs.used_bytes(),
            held_bytes: self.slabs.held_bytes(),
            held: self.held(),
        }
    }

    /// Walks everything: that every object lies in memory that is marked as used, that no two share
    /// any, that nothing is marked which no object has, and that the counts are right.
    ///
    /// All operations wait until it has ended, some 10 ms for a million objects.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`] with the first thing that is not as it must be.
    pub fn check(&self) -> Result<Checked, ObjectError> {
        let _built = self.building.write().unwrap_or_else(PoisonError::into_inner);
        let _still = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let makers = self.makers.iter().map(|maker| maker.lock());
        let _makers: Vec<_> = makers.collect();
        let mut latched = Vec::new();
        for numbers in self.table.numbers(self.groups.load(Ordering::SeqCst)) {
            for number in numbers {
                if let Some(group) = self.table.get(number) {
                    latched.push((number, self.latch(group)));
                }
            }
        }
        let lists = self.placed.iter().map(|list| list.lock());
        let placed: Vec<_> = lists.map(|it| it.unwrap_or_else(PoisonError::into_inner)).collect();
        let runs = placed.iter().flat_map(|list| list.iter().copied()).collect();
        self.check_latched(&latched, runs).map_err(ObjectError::Damaged)
    }

    /// `runs`: those of objects that no group has yet.
    fn check_latched(
        &self,
        groups: &[(u64, Latched<'_>)],
        mut runs: Vec<crate::slabs::Run>,
    ) -> Result<Checked, String> {
        let mut checked = Checked::default();
        for (number, latched) in groups {
            self.check_group(*number, latched.group, &mut checked, &mut runs)?;
        }
        self.slabs.check(runs.into_iter())?;
        let stats = self.stats();
        let counted = (stats.objects, stats.object_bytes);
        if counted != (checked.objects, checked.object_bytes) {
            return Err(format!(
                "(objects, bytes) are {checked:?} and were counted as {counted:?}"
            ));
        }
        Ok(checked)
    }

    fn check_group(
        &self,
        number: u64,
        group: &Group,
        checked: &mut Checked,
        runs: &mut Vec<crate::slabs::Run>,
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
            let Some(found) = view.find(&self.slabs, slot) else {
                return Err(format!("object {} is nowhere", self.id_at(number, slot)));
            };
            runs.extend(found.far);
            checked.objects += 1;
            checked.object_bytes += terrace_sys::size::to_u64(found.len);
        }
        Ok(())
    }

    /// The ids of all objects from `from` on, in the order of their places, at most `max`: those
    /// that were there when their group was looked at.
    #[must_use]
    pub fn ids(&self, from: ObjectId, max: usize) -> Vec<ObjectId> {
        self.ids_in_order(self.table.order_of(from), max)
    }

    /// The ids of objects behind `last`, as [`ObjectStore::ids`] gives them: with the last id of
    /// one call, the next goes on.
    #[must_use]
    pub fn ids_after(&self, last: ObjectId, max: usize) -> Vec<ObjectId> {
        let next = self.table.order_of(last).checked_add(1);
        next.map_or_else(Vec::new, |next| self.ids_in_order(next, max))
    }

    fn ids_in_order(&self, from: u64, max: usize) -> Vec<ObjectId> {
        let mut ids = Vec::new();
        for numbers in self.sorted_numbers() {
            let order = |id| self.table.order_of(id);
            let first = (from / GROUP_SLOTS).max(numbers.start);
            for number in first..numbers.end.max(first) {
                let Some(group) = self.table.get(number) else { continue };
                let view = self.settled(group);
                let here = view
                    .slots()
                    .map(|slot| self.id_at(number, slot))
                    .filter(|id| order(*id) >= from);
                ids.extend(here.take(max - ids.len()));
                if ids.len() == max {
                    return ids;
                }
            }
        }
        ids
    }

    /// The ids of all objects as ranges, both ends included, in order.
    #[must_use]
    pub fn id_ranges(&self) -> Vec<(ObjectId, ObjectId)> {
        let mut ranges: Vec<(ObjectId, ObjectId)> = Vec::new();
        for number in self.sorted_numbers().into_iter().flatten() {
            let Some(group) = self.table.get(number) else { continue };
            for slot in self.settled(group).slots() {
                let id = self.id_at(number, slot);
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

    /// What a group holds between two changes.
    fn settled(&self, group: &Group) -> View {
        let look = || {
            let seen = group.latch.version()?;
            let view = group.view();
            group.is_still(seen).then_some(view)
        };
        look().unwrap_or_else(|| self.latch(group).group.view())
    }

    fn sorted_numbers(&self) -> Vec<std::ops::Range<u64>> {
        let mut numbers = self.table.numbers(self.groups.load(Ordering::SeqCst));
        numbers.sort_unstable_by_key(|numbers| numbers.start);
        numbers
    }
}

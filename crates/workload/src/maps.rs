//! Comparison of the small-object store with DashMap, papaya and scc under the same workload.
//!
//! Each map is measured with inline and with boxed values, used as its authors recommend, and
//! hashes by ahash. None has batch operations; papaya's batched reads share a guard. papaya's
//! values are immutable: a write there inserts a new value.
//!
//! The maps live in this crate, and not in the benchmark that measures them, so that they are
//! compiled with the same optimisation as the store.

use std::sync::atomic::{AtomicBool, Ordering};

use ahash::RandomState;
use terrace_objects::{Batch, ObjectId, ObjectStore};

/// Size of a value in bytes.
pub const LEN: usize = 32;
/// Interval of writes: one operation in this many is a write.
pub const PUT_EVERY: usize = 20;
/// Number of reads per batch.
pub const BATCH: usize = 32;
/// Operations between two checks of the stop flag.
const STEP: usize = 1024;

/// One of the measured stores or maps.
pub type Made = Box<dyn Mix>;
/// Function that creates a map with a value for each id.
pub type Make = fn(&[ObjectId]) -> Made;

type Inline = [u8; LEN];
type Boxed = Box<[u8]>;

/// The measured workload, compiled separately for each store or map.
pub trait Mix: Send + Sync {
    /// Runs the workload until `stop` is set and returns the number of served operations: batched
    /// reads, or single operations with one write in [`PUT_EVERY`].
    fn mix(&self, batched: bool, ids: &[ObjectId], stop: &AtomicBool) -> u64;
}

/// Returns a name and a constructor for each of the maps.
// Not inlined, because the maps would then be compiled in the caller's crate, which is less
// optimised.
#[inline(never)]
#[must_use]
pub fn makers() -> [(&'static str, Make); 6] {
    [
        ("DashMap, inline", dash::<Inline>),
        ("DashMap, boxed", dash::<Boxed>),
        ("papaya, inline", papaya::<Inline>),
        ("papaya, boxed", papaya::<Boxed>),
        ("scc, inline", scc::<Inline>),
        ("scc, boxed", scc::<Boxed>),
    ]
}

/// Wraps the store, with its existing objects, for the same workload.
#[inline(never)]
#[must_use]
pub fn store_of(store: ObjectStore) -> Made {
    Box::new(store)
}

/// A table of values of [`LEN`] bytes by id.
trait Table: Send + Sync {
    /// Copies a value. Returns true if it exists.
    fn get(&self, id: ObjectId, to: &mut [u8; LEN]) -> bool;

    /// Replaces an existing value. Returns true if it existed.
    fn put(&self, id: ObjectId, from: &[u8; LEN]) -> bool;

    /// Copies the values of a batch and returns the number of those that exist.
    fn get_many(&self, ids: &[ObjectId], room: &mut Room) -> u64 {
        let values = ids.iter().zip(&mut room.values);
        values.map(|(id, to)| u64::from(self.get(*id, to))).sum()
    }
}

/// Buffers for the values of a batch.
struct Room {
    batch: Batch,
    values: [[u8; LEN]; BATCH],
}

impl Room {
    fn new() -> Self {
        Self { batch: Batch::new(), values: [[0; LEN]; BATCH] }
    }
}

impl<T: Table> Mix for T {
    fn mix(&self, batched: bool, ids: &[ObjectId], stop: &AtomicBool) -> u64 {
        let (mut bytes, from, mut count) = ([0; LEN], [8; LEN], 0);
        let mut room = Room::new();
        for ids in ids.chunks(STEP).cycle() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if batched {
                count += ids.chunks(BATCH).map(|ids| self.get_many(ids, &mut room)).sum::<u64>();
                continue;
            }
            for (n, id) in ids.iter().enumerate() {
                let put = n % PUT_EVERY == 0;
                let served = if put { self.put(*id, &from) } else { self.get(*id, &mut bytes) };
                count += u64::from(served);
            }
        }
        std::hint::black_box((bytes, room.values));
        count
    }
}

impl Table for ObjectStore {
    fn get(&self, id: ObjectId, to: &mut [u8; LEN]) -> bool {
        ObjectStore::get(self, id, to).is_ok()
    }

    fn put(&self, id: ObjectId, from: &[u8; LEN]) -> bool {
        ObjectStore::put(self, id, from).is_ok()
    }

    fn get_many(&self, ids: &[ObjectId], room: &mut Room) -> u64 {
        ObjectStore::get_many(self, ids, &mut room.batch);
        room.batch.iter().filter(|found| found.is_ok()).count() as u64
    }
}

/// A value of [`LEN`] bytes.
trait Value: Send + Sync + 'static {
    fn new(from: &[u8; LEN]) -> Self;
    fn get(&self, to: &mut [u8; LEN]);
    fn set(&mut self, from: &[u8; LEN]);
}

impl Value for Inline {
    #[inline]
    fn new(from: &[u8; LEN]) -> Self {
        *from
    }

    #[inline]
    fn get(&self, to: &mut [u8; LEN]) {
        *to = *self;
    }

    #[inline]
    fn set(&mut self, from: &[u8; LEN]) {
        *self = *from;
    }
}

impl Value for Boxed {
    #[inline]
    fn new(from: &[u8; LEN]) -> Self {
        Box::from(&from[..])
    }

    #[inline]
    fn get(&self, to: &mut [u8; LEN]) {
        to[..self.len()].copy_from_slice(self);
    }

    #[inline]
    fn set(&mut self, from: &[u8; LEN]) {
        self.copy_from_slice(from);
    }
}

type Dash<V> = dashmap::DashMap<u64, V, RandomState>;
type Papaya<V> = papaya::HashMap<u64, V, RandomState>;
type Scc<V> = scc::HashMap<u64, V, RandomState>;

fn dash<V: Value>(ids: &[ObjectId]) -> Made {
    Box::new(dash_of::<V>(ids))
}

fn dash_of<V: Value>(ids: &[ObjectId]) -> Dash<V> {
    let map = Dash::with_capacity_and_hasher(ids.len(), RandomState::new());
    for id in ids {
        map.insert(id.to_bits(), V::new(&[7; LEN]));
    }
    map
}

fn papaya<V: Value>(ids: &[ObjectId]) -> Made {
    Box::new(papaya_of::<V>(ids))
}

fn papaya_of<V: Value>(ids: &[ObjectId]) -> Papaya<V> {
    let map = Papaya::with_capacity_and_hasher(ids.len(), RandomState::new());
    for id in ids {
        map.pin().insert(id.to_bits(), V::new(&[7; LEN]));
    }
    map
}

fn scc<V: Value>(ids: &[ObjectId]) -> Made {
    Box::new(scc_of::<V>(ids))
}

fn scc_of<V: Value>(ids: &[ObjectId]) -> Scc<V> {
    let map = Scc::with_capacity_and_hasher(ids.len(), RandomState::new());
    for id in ids {
        map.upsert_sync(id.to_bits(), V::new(&[7; LEN]));
    }
    map
}

impl<V: Value> Table for Dash<V> {
    fn get(&self, id: ObjectId, to: &mut [u8; LEN]) -> bool {
        dashmap::DashMap::get(self, &id.to_bits()).is_some_and(|value| {
            value.get(to);
            true
        })
    }

    fn put(&self, id: ObjectId, from: &[u8; LEN]) -> bool {
        self.get_mut(&id.to_bits()).is_some_and(|mut value| {
            value.set(from);
            true
        })
    }
}

impl<V: Value> Table for Papaya<V> {
    fn get(&self, id: ObjectId, to: &mut [u8; LEN]) -> bool {
        self.pin().get(&id.to_bits()).is_some_and(|value| {
            value.get(to);
            true
        })
    }

    fn put(&self, id: ObjectId, from: &[u8; LEN]) -> bool {
        self.pin().insert(id.to_bits(), V::new(from)).is_some()
    }

    fn get_many(&self, ids: &[ObjectId], room: &mut Room) -> u64 {
        let map = self.pin();
        let mut count = 0;
        for (id, to) in ids.iter().zip(&mut room.values) {
            if let Some(value) = map.get(&id.to_bits()) {
                value.get(to);
                count += 1;
            }
        }
        count
    }
}

impl<V: Value> Table for Scc<V> {
    fn get(&self, id: ObjectId, to: &mut [u8; LEN]) -> bool {
        self.read_sync(&id.to_bits(), |_, value| value.get(to)).is_some()
    }

    fn put(&self, id: ObjectId, from: &[u8; LEN]) -> bool {
        self.update_sync(&id.to_bits(), |_, value| value.set(from)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_were_put_last() {
        let ids: Vec<ObjectId> = (1..=100).map(ObjectId::from_bits).collect();
        fn check(table: &impl Table, ids: &[ObjectId]) {
            let (mut to, mut room) = ([0; LEN], Room::new());
            for (id, n) in ids.iter().zip(1..) {
                assert!(table.get(*id, &mut to) && to == [7; LEN], "{id}");
                assert!(table.put(*id, &[n; LEN]) && table.get(*id, &mut to) && to == [n; LEN]);
            }
            assert_eq!(table.get_many(&ids[..BATCH], &mut room), BATCH as u64);
            assert!(!table.get(ObjectId::from_bits(1000), &mut to));
        }
        check(&dash_of::<Inline>(&ids), &ids);
        check(&dash_of::<Boxed>(&ids), &ids);
        check(&papaya_of::<Inline>(&ids), &ids);
        check(&papaya_of::<Boxed>(&ids), &ids);
        check(&scc_of::<Inline>(&ids), &ids);
        check(&scc_of::<Boxed>(&ids), &ids);
    }
}

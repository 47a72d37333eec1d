//! Cost of operations on objects of 32 bytes.

use std::time::Duration;

use divan::Bencher;
use terrace_objects::{Backing, ObjectConfig, ObjectId, ObjectStore};

const OBJECTS: usize = 100_000;

fn main() {
    divan::main();
}

fn store() -> (ObjectStore, Vec<ObjectId>) {
    let memory = Backing::Dram { bytes: 256 << 20 };
    let store = ObjectStore::new(ObjectConfig::new("objects", memory)).expect("a store");
    let ids = (0..OBJECTS).map(|_| store.create_with(&[7; 32]).expect("room")).collect();
    (store, ids)
}

/// Measures an operation on one object after the other, in an order without locality.
fn measure(bencher: Bencher<'_, '_>, mut operation: impl FnMut(&ObjectStore, ObjectId)) {
    let (store, ids) = store();
    let mut at = 0;
    bencher.bench_local(|| {
        at = (at + 48_271) % OBJECTS;
        operation(&store, ids[at]);
    });
}

#[divan::bench]
fn get(bencher: Bencher<'_, '_>) {
    let mut bytes = [0; 32];
    measure(bencher, |store, id| {
        store.get(id, &mut bytes).expect("there");
    });
}

#[divan::bench]
fn put(bencher: Bencher<'_, '_>) {
    measure(bencher, |store, id| store.put(id, &[9; 32]).expect("there"));
}

#[divan::bench]
fn lock_and_put(bencher: Bencher<'_, '_>) {
    measure(bencher, |store, id| {
        let mut locked = store.write_lock(id, Duration::from_secs(1)).expect("free");
        locked.put(&[9; 32]).expect("there");
    });
}

#[divan::bench]
fn create_and_remove(bencher: Bencher<'_, '_>) {
    measure(bencher, |store, _| {
        let id = store.create_with(&[7; 32]).expect("room");
        store.remove(id).expect("there");
    });
}

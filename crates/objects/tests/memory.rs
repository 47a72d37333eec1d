//! Objects in every kind of memory, and under a budget.

use std::sync::Arc;

use terrace_ledger::Ledger;
use terrace_objects::{Backing, Batch, ObjectConfig, ObjectError, ObjectId, ObjectStore};
use terrace_region::{Advice, Contents, Region, RegionConfig, Source};
use terrace_store::MemoryBlocks;
use terrace_sys::size::to_u64;
use terrace_testkit::{Rng, needs};

const MIB: usize = 1 << 20;

fn region(bytes: usize, cap_bytes: u64) -> Arc<Region> {
    let blocks = Arc::new(MemoryBlocks::new(to_u64(bytes)));
    let source = Source { blocks, offset: 0, len: to_u64(bytes), contents: Contents::Blank };
    Arc::new(
        Region::new(RegionConfig::new("objects", Ledger::new(cap_bytes)), source)
            .expect("a region"),
    )
}

fn bytes_of(id: ObjectId, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::new(id.to_bits()).fill(&mut bytes);
    bytes
}

/// Fills a store with objects of many lengths. Returns their ids and lengths.
fn fill(store: &ObjectStore, bytes: usize, rng: &mut Rng) -> Vec<(ObjectId, usize)> {
    let (mut objects, mut sum) = (Vec::new(), 0);
    while sum < bytes {
        let most = if rng.one_in(50) { 20_000 } else { 112 };
        let len = 16 + rng.index(most);
        let id = store.create(len).expect("room");
        store.put(id, &bytes_of(id, len)).expect("there");
        objects.push((id, len));
        sum += len;
    }
    objects
}

fn read_all(store: &ObjectStore, objects: &[(ObjectId, usize)]) {
    let mut batch = Batch::new();
    for objects in objects.chunks(50) {
        let ids: Vec<ObjectId> = objects.iter().map(|(id, _)| *id).collect();
        store.get_many(&ids, &mut batch);
        for ((id, len), found) in objects.iter().zip(batch.iter()) {
            assert_eq!(found.expect("there"), bytes_of(*id, *len), "{id}");
        }
    }
}

#[test]
fn objects_are_more_than_memory_in_sum() {
    if !needs::regions() {
        return;
    }
    let region = region(96 * MIB, to_u64(16 * MIB));
    let config = ObjectConfig::new("far", Backing::region(Arc::clone(&region)));
    let store = ObjectStore::new(config).expect("a store");
    let mut objects = fill(&store, 64 * MIB, &mut Rng::new(1));
    read_all(&store, &objects);
    assert!(region.stats().resident_bytes <= to_u64(17 * MIB), "{:?}", region.stats());
    let kept = objects.split_off(objects.len() / 2);
    objects.iter().for_each(|(id, _)| store.remove(*id).expect("there"));
    store.defragment();
    read_all(&store, &kept);
    store.check().expect("in order");
    drop(store);
    assert!(region.stats().resident_bytes <= to_u64(MIB), "{:?}", region.stats());
}

#[test]
fn stores_share_a_region() {
    if !needs::regions() {
        return;
    }
    let region = region(32 * MIB, to_u64(8 * MIB));
    let half = |offset| Backing::Region { region: Arc::clone(&region), offset, bytes: 16 * MIB };
    let stores = [0, 16 * MIB]
        .map(|offset| ObjectStore::new(ObjectConfig::new("half", half(offset))).expect("a store"));
    let objects = [0, 1].map(|n| fill(&stores[n], 12 * MIB, &mut Rng::new(7)));
    let [first, second] = stores;
    drop(first);
    read_all(&second, &objects[1]);
    let error = ObjectStore::new(ObjectConfig::new("beyond", half(17 * MIB))).expect_err("too far");
    assert!(error.to_string().contains("33554432"), "{error}");
}

/// No byte of a region belongs to two stores, or to a store and a heap.
#[test]
fn a_part_of_a_region_is_one_store_s() {
    if !needs::regions() {
        return;
    }
    let region = region(32 * MIB, to_u64(16 * MIB));
    let part = |offset| {
        let memory = Backing::Region { region: region.clone(), offset, bytes: 16 * MIB };
        ObjectStore::new(ObjectConfig::new("part", memory))
    };
    let first = part(0).expect("free");
    let error = part(8 * MIB).expect_err("taken").to_string();
    assert!(error.contains("a part of an object store"), "{error}");
    let beside = part(16 * MIB).expect("free");
    region.advise(0, to_u64(32 * MIB), Advice::Unused).expect_err("in use");
    drop((first, beside));
    part(8 * MIB).expect("free again");
}

#[test]
fn objects_live_on_a_node() {
    if !needs::nodes() {
        return;
    }
    let memory = Backing::Node { node: 0, bytes: 16 * MIB };
    let store = ObjectStore::new(ObjectConfig::new("node", memory)).expect("node 0");
    let objects = fill(&store, 8 * MIB, &mut Rng::new(3));
    read_all(&store, &objects);
    assert_eq!(store.stats().memory, "node");
    let memory = Backing::Node { node: 1000, bytes: 16 * MIB };
    let error = ObjectStore::new(ObjectConfig::new("node", memory)).expect_err("no such node");
    assert!(error.to_string().contains("1000"), "{error}");
}

#[test]
fn the_budget_is_kept_and_given_back() {
    let ledger = Ledger::new(to_u64(8 * MIB));
    let memory = Backing::Dram { bytes: 1 << 30 };
    let config =
        ObjectConfig { ledger: Some(ledger.clone()), ..ObjectConfig::new("budget", memory) };
    let store = ObjectStore::new(config).expect("addresses");
    let mut ids = Vec::new();
    let error = loop {
        match store.create(100) {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ObjectError::OutOfMemory { .. }), "{error}");
    let stats = store.stats();
    assert!(ids.len() * 100 > 5 * MIB, "{stats:?}");
    let held = stats.held_bytes + stats.table_bytes;
    assert_eq!(ledger.granted(), held, "{stats:?}");
    for _ in 0..100 {
        store.remove(ids.swap_remove(ids.len() / 2)).expect("there");
        ids.push(store.create(100).expect("room for one"));
    }
    ids.iter().for_each(|id| store.remove(*id).expect("there"));
    store.defragment();
    assert!(ledger.granted() <= to_u64(3 * MIB), "{:?}", store.stats());
    store.check().expect("in order");
    drop(store);
    assert_eq!(ledger.granted(), 0);
}

#[test]
fn memory_below_a_slab_is_refused() {
    let memory = Backing::Dram { bytes: MIB };
    let error = ObjectStore::new(ObjectConfig::new("tiny", memory)).expect_err("too little");
    assert!(error.to_string().contains("2MiB"), "{error}");
}

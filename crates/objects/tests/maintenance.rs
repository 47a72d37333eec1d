//! Stores with a maintenance thread, for defragmentation and checkpoints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_objects::{
    Backing, Durability, LogConfig, Maintenance, MaintenanceConfig, ObjectConfig, ObjectId,
    ObjectStore,
};

const MIB: usize = 1 << 20;

fn config() -> ObjectConfig {
    ObjectConfig::new("kept", Backing::Dram { bytes: 64 * MIB })
}

fn soon() -> MaintenanceConfig {
    MaintenanceConfig { every: Duration::from_millis(5), ..MaintenanceConfig::default() }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn memory_goes_back_without_a_call() {
    let store = Arc::new(ObjectStore::new(config()).expect("memory"));
    let _maintenance = Maintenance::start(&store, soon()).expect("a thread");
    let ids: Vec<ObjectId> = (0..400_000).map(|_| store.create(32).expect("room")).collect();
    let held = store.stats().held_bytes;
    for (n, id) in ids.iter().enumerate().filter(|(n, _)| n % 8 != 0) {
        store.remove(*id).unwrap_or_else(|error| panic!("{n}: {error}"));
    }
    until("memory goes back", || store.stats().held_bytes < held / 4);
    store.check().expect("in order");
}

#[test]
fn logs_stay_short() {
    let scratch = tempfile::tempdir().expect("a directory");
    let log = LogConfig { durability: Durability::Written, ..LogConfig::new(scratch.path()) };
    let (store, _) = ObjectStore::open(config(), log.clone()).expect("empty");
    let store = Arc::new(store);
    let maintenance =
        Maintenance::start(&store, MaintenanceConfig { log_bytes: 100_000, ..soon() });
    let maintenance = maintenance.expect("a thread");
    let id = store.create(1000).expect("room");
    let mut puts = 0_u64;
    until("three dumps", || {
        let dumps = std::fs::read_dir(scratch.path()).expect("a directory").filter(|entry| {
            let name = entry.as_ref().expect("readable").file_name();
            name.to_string_lossy().strip_prefix("dump-").is_some_and(|n| n > "0000000000000003")
        });
        dumps.count() > 0 || {
            puts += 100;
            (0..100).for_each(|_| store.put(id, &[7; 1000]).expect("there"));
            false
        }
    });
    drop(maintenance);
    drop(store);
    let (store, found) = ObjectStore::open(config(), log).expect("sound");
    assert_eq!(store.get_vec(id).expect("there"), [7; 1000]);
    assert!(found.changes < puts, "{found:?} of {puts}");
}

#[test]
fn changes_without_a_waiting_thread_are_written_soon() {
    let scratch = tempfile::tempdir().expect("a directory");
    let log = LogConfig { durability: Durability::Deferred, ..LogConfig::new(scratch.path()) };
    let (store, _) = ObjectStore::open(config(), log).expect("empty");
    let (store, before) = (Arc::new(store), 1000);
    assert!(store.log_bytes() < before);
    let id = store.create(1000).expect("room");
    store.put(id, &[7; 1000]).expect("there");
    assert!(store.log_bytes() < before, "the log has a kilobyte more");
    let _maintenance = Maintenance::start(&store, soon()).expect("a thread");
    until("the log has it", || store.log_bytes() > before);
    store.put(id, &[8; 1000]).expect("there");
    until("the log has that, too", || store.log_bytes() > 2 * before);
}

/// A batch that records the sync tells the last batch from a torn write.
#[test]
fn what_is_synced_is_said_soon() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (store, _) = ObjectStore::open(config(), LogConfig::new(scratch.path())).expect("empty");
    let store = Arc::new(store);
    store.create_with(b"synced").expect("room");
    let before = store.log_bytes();
    let _maintenance = Maintenance::start(&store, soon()).expect("a thread");
    until("the log says it", || store.log_bytes() > before);
}

#[test]
fn maintenance_ends_with_its_store() {
    let store = Arc::new(ObjectStore::new(config()).expect("memory"));
    let weak = Arc::downgrade(&store);
    let maintenance = Maintenance::start(&store, soon()).expect("a thread");
    drop(store);
    until("the store ends", || weak.upgrade().is_none());
    drop(maintenance);
}

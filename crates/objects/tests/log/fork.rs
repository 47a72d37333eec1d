//! Operations of a child process (fork) on its parent's store, whose log stays the parent's.

use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use terrace_objects::{
    Backing, Durability, Maintenance, MaintenanceConfig, ObjectConfig, ObjectError, ObjectId,
    ObjectStore,
};
use terrace_sys::fault_injection;
use terrace_sys::sync::lock;

use super::{MIB, Model, config, files, log, open};

/// Held by a test that forks: a child has a copy of the locks that all threads hold.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    lock(&ONE_AT_A_TIME)
}

fn child(work: impl FnOnce() -> bool) -> ExitStatus {
    // SAFETY: the allocator that a child calls here resets its locks in it, and at the fork no
    // other thread is in a call of the stores that the child uses.
    unsafe { fault_injection::in_child(|| u8::from(!work())) }.expect("a child")
}

/// A store that its owner can drop, and a child its copy.
type Slot = Mutex<Option<ObjectStore>>;

fn take(slot: &Slot) -> ObjectStore {
    lock(slot).take().expect("not taken yet")
}

fn refuse<T>(result: Result<T, ObjectError>) -> bool {
    result.err().is_some_and(|error| {
        matches!(error, ObjectError::Forked { opened_by } if opened_by != std::process::id())
    })
}

/// True if all operations that would be logged are refused.
fn refuses_changes(store: &ObjectStore, id: ObjectId) -> bool {
    let bytes = &[7; 16];
    [
        refuse(store.create(5)),
        refuse(store.create_with(bytes)),
        refuse(store.create_with(&[1; 5000])),
        refuse(store.create_many(&[bytes])),
        refuse(store.create_consecutive(&[bytes])),
        refuse(store.create_reserved(ObjectId::new(9, 9), bytes)),
        refuse(store.reserve()),
        refuse(store.reserve_consecutive(9)),
        refuse(store.release(id)),
        refuse(store.put(id, bytes)),
        refuse(store.put_many(&[(id, bytes)]).remove(0)),
        refuse(store.write_at(id, 0, bytes)),
        refuse(store.replace(id, b"other")),
        refuse(store.resize(id, 7)),
        refuse(store.set_read_only(id, true)),
        refuse(store.remove(id)),
        refuse(store.remove_many(&[id]).remove(0)),
        refuse(store.sync()),
        refuse(store.checkpoint()),
    ]
    .iter()
    .all(|refused| *refused)
}

fn bytes_of(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let read = |path: std::path::PathBuf| {
        let bytes = std::fs::read(&path).expect("there");
        (path, bytes)
    };
    files(dir, "").into_iter().map(read).collect()
}

/// The child drops its copy; the parent continues, and every acknowledged change is kept.
#[test]
fn a_child_that_ends_changes_nothing() {
    let _alone = alone();
    for durability in [Durability::Synced, Durability::Written, Durability::Deferred] {
        let scratch = tempfile::tempdir().expect("a directory");
        let (store, _) =
            ObjectStore::open(config(), log(scratch.path(), durability)).expect("empty");
        let first = store.create_with(&[1; 16]).expect("room");
        (1..10).for_each(|n| assert!(store.create_with(&[n; 16]).is_ok()));
        let (slot, before) = (Mutex::new(Some(store)), bytes_of(scratch.path()));
        let status = child(|| {
            let store = take(&slot);
            let reads = store.get_vec(first).is_ok_and(|bytes| bytes == [1; 16]);
            let refuses = refuses_changes(&store, first) && store.log_bytes() == 0;
            reads && refuses && store.close().is_ok()
        });
        assert!(status.success(), "{durability:?}: {status}");
        // The copy does not write pending changes either.
        assert_eq!(bytes_of(scratch.path()), before);
        let store = take(&slot);
        (0..100).for_each(|_| assert!(store.put(first, &[9; 16]).is_ok()));
        (0..90).for_each(|n| assert!(store.create_with(&[n; 16]).is_ok()));
        let model = Model::of(&store);
        drop(store);
        let store = open(scratch.path());
        assert!(model.objects.len() == 100 && Model::of(&store) == model, "{durability:?}");
    }
}

/// As daemon(3) does it: the parent exits, with its destructors, and the child continues.
#[test]
fn a_child_that_outlives_its_parent_is_told() {
    let _alone = alone();
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path().join("log");
    let (store, _) = ObjectStore::open(config(), log(&dir, Durability::Synced)).expect("empty");
    let first = store.create_with(&[1; 16]).expect("room");
    (1..10).for_each(|n| assert!(store.create_with(&[n; 16]).is_ok()));
    let slot = Mutex::new(Some(store));
    let [forked, ended] = ["forked", "ended"].map(|name| scratch.path().join(name));
    let wait = |path: &Path| {
        let end = Instant::now() + Duration::from_secs(60);
        while !path.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        path.exists()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(wait(&forked));
            drop(take(&slot));
            // The child's copy of the lock does not exclude other processes.
            assert_eq!(open(&dir).create_with(b"next owner").map(|_| ()).ok(), Some(()));
            std::fs::write(&ended, b"").expect("written");
        });
        let status = child(|| {
            let store = take(&slot);
            let told = std::fs::write(&forked, b"").is_ok() && wait(&ended);
            let refused = (0..100).all(|n| refuse(store.create_with(&[n; 16])));
            let reads = store.get_vec(first).is_ok_and(|bytes| bytes == [1; 16]);
            drop(store);
            told && refused && reads
        });
        assert!(status.success(), "{status}");
    });
    assert_eq!(Model::of(&open(&dir)).objects.len(), 11);
}

/// A child has no maintenance thread to wait for, and may have stores of its own.
#[test]
fn a_child_ends_without_its_parents_maintenance() {
    let _alone = alone();
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path().join("log");
    let (store, _) = ObjectStore::open(config(), log(&dir, Durability::Deferred)).expect("empty");
    let store = Arc::new(store);
    let every = Duration::from_secs(3600);
    let config = MaintenanceConfig { every, ..MaintenanceConfig::default() };
    let maintenance = Maintenance::start(&store, config).expect("a thread");
    // The maintenance thread sleeps by now, and holds no locks.
    std::thread::sleep(Duration::from_millis(50));
    let slot = Mutex::new(Some(maintenance));
    let status = child(|| {
        drop(lock(&slot).take());
        let memory = Backing::Dram { bytes: 8 * MIB };
        let own = ObjectConfig::new("a child's", memory);
        let own_dir = scratch.path().join("own");
        let own = ObjectStore::open(own, log(&own_dir, Durability::Synced));
        own.is_ok_and(|(own, _)| own.create_with(b"its own").is_ok() && own.close().is_ok())
            && refuse(store.create(1))
    });
    assert!(status.success(), "{status}");
    drop(slot);
    store.create_with(b"the parent's").expect("room");
    drop(store);
    assert_eq!(Model::of(&open(&dir)).objects.len(), 1);
    assert_eq!(Model::of(&open(&scratch.path().join("own"))).objects.len(), 1);
}

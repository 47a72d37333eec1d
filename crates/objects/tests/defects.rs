//! Regression tests for the defects of other stores of this kind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace_objects::{Backing, LockMode, ObjectConfig, ObjectError, ObjectId, ObjectStore};

const MIB: usize = 1 << 20;

fn store(bytes: usize) -> ObjectStore {
    ObjectStore::new(ObjectConfig::new("test", Backing::Dram { bytes })).expect("memory")
}

fn store_of_node(node: u16, bytes: usize) -> ObjectStore {
    let config = ObjectConfig::new("test", Backing::Dram { bytes });
    ObjectStore::new(ObjectConfig { node, ..config }).expect("memory")
}

#[test]
fn all_ids_of_removed_objects_are_used_again() {
    let store = store(64 * MIB);
    let count = 250_000;
    let fill = || (0..count).map(|_| store.create(32).expect("room")).collect::<Vec<ObjectId>>();
    let mut ids = fill();
    let given_out = store.stats().ids;
    for _ in 0..3 {
        ids.iter().for_each(|id| store.remove(*id).expect("there"));
        ids = fill();
        assert!(ids.iter().all(|id| store.exists(*id)));
        assert!(store.stats().ids <= given_out + 64, "{:?}", store.stats());
    }
    store.check().expect("in order");
}

#[test]
fn a_resize_without_room_changes_nothing_and_locks_nothing() {
    let store = store(4 * MIB);
    let id = store.create_with(b"as it was").expect("room");
    let error = store.resize(id, 64 * MIB).expect_err("no room");
    assert!(matches!(error, ObjectError::OutOfMemory { .. }), "{error}");
    assert_eq!(store.get_vec(id).expect("there"), b"as it was");
    assert!(matches!(store.replace(id, &vec![1; 8 * MIB]), Err(ObjectError::OutOfMemory { .. })));
    assert!(matches!(store.resize(id, usize::MAX), Err(ObjectError::TooLong(_))));
    assert_eq!(store.get_vec(id).expect("there"), b"as it was");
    store.create(32).expect("there is room for little ones");
    store.resize(id, 1000).expect("and for some more");
    assert_eq!(store.size(id).expect("there"), 1000);
    store.check().expect("in order");
}

#[test]
fn ids_of_other_nodes_are_listed_beside_the_own() {
    let store = store_of_node(7, 8 * MIB);
    let own = store.create(8).expect("room");
    let theirs = [ObjectId::new(3, 77), ObjectId::new(3, 78), ObjectId::new(9, 1 << 40)];
    for id in theirs {
        store.create_reserved(id, b"from elsewhere").expect("a free id");
        let error = store.create_reserved(id, b"twice").expect_err("it is there");
        assert!(matches!(error, ObjectError::NotReserved(_)), "{error}");
        assert_eq!(store.get_vec(id).expect("there"), b"from elsewhere");
    }
    assert_eq!(
        store.id_ranges(),
        [(theirs[0], theirs[1]), (own, own), (theirs[2], theirs[2])],
        "in the order of their ids"
    );
    store.remove(theirs[1]).expect("there");
    assert!(!store.exists(theirs[1]) && store.exists(theirs[0]));
    store.check().expect("in order");
}

#[test]
fn a_lock_that_changes_its_kind_leaves_none_behind() {
    let store = store(4 * MIB);
    let id = store.create(8).expect("room");
    let now = Duration::ZERO;
    let read = store.read_lock(id, now).expect("free");
    let mut write = read.upgrade(now).expect("alone");
    write.put(b"12345678").expect("held");
    assert!(store.read_lock(id, now).is_err(), "a writer keeps readers out");
    let read = write.downgrade();
    let second = store.read_lock(id, now).expect("readers share");
    assert!(store.write_lock(id, now).is_err());
    let (read, error) = read.upgrade(now).expect_err("another reads");
    assert!(matches!(error, ObjectError::LockTimeout { .. }), "{error}");
    drop((read, second));
    assert_eq!(store.held(), 0);
    drop(store.write_lock(id, now).expect("free"));
    assert!(matches!(store.unlock(id, LockMode::Write), Err(ObjectError::NotLocked(_))));
    store.put(id, b"87654321").expect("free");
}

#[test]
fn of_two_readers_who_want_to_write_the_second_is_told() {
    let store = store(4 * MIB);
    let id = store.create(8).expect("room");
    let first = store.read_lock(id, Duration::ZERO).expect("free");
    let second = store.read_lock(id, Duration::ZERO).expect("readers share");
    std::thread::scope(|scope| {
        let upgraded = scope.spawn(|| first.upgrade(Duration::from_secs(20)).map(drop).is_ok());
        std::thread::sleep(Duration::from_millis(50));
        let (second, error) = second.upgrade(Duration::from_secs(20)).expect_err("a circle");
        assert!(matches!(error, ObjectError::UpgradeConflict(_)), "{error}");
        drop(second);
        assert!(upgraded.join().expect("no panic"));
    });
    assert_eq!(store.held(), 0);
}

#[test]
fn long_timeouts_are_as_long_as_they_say() {
    let store = store(4 * MIB);
    let id = store.create(8).expect("room");
    let held = store.write_lock(id, Duration::ZERO).expect("free");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let (since, wait) = (Instant::now(), Duration::from_millis(2_200));
            (store.read_lock(id, wait).map(drop).is_ok(), since.elapsed())
        });
        let patient = scope.spawn(|| store.write_lock(id, Duration::MAX).map(drop).is_ok());
        let (locked, waited) = waiter.join().expect("no panic");
        assert!(!locked && waited >= Duration::from_millis(2_200), "{waited:?}");
        drop(held);
        assert!(patient.join().expect("no panic"), "the longest wait of all");
    });
}

#[test]
fn reserved_ids_name_their_node() {
    let store = store_of_node(5, 4 * MIB);
    let id = store.reserve().expect("ids");
    assert_eq!(id.node(), 5);
    assert!(!store.exists(id));
    assert!(matches!(store.get_vec(id), Err(ObjectError::NotFound(_))));
    assert!(matches!(store.put(id, b""), Err(ObjectError::NotFound(_))));
    store.create_reserved(id, b"here").expect("reserved");
    assert_eq!(store.get_vec(id).expect("there"), b"here");
    let never = ObjectId::new(5, 1_000_000);
    assert!(matches!(store.create_reserved(never, b""), Err(ObjectError::NotReserved(_))));
    assert!(matches!(store.release(id), Err(ObjectError::NotReserved(_))), "it has an object");
    let zero = store_of_node(0, 4 * MIB);
    let none = ObjectId::from_bits(0);
    assert!(matches!(zero.create_reserved(none, b""), Err(ObjectError::NotReserved(_))));
    assert_ne!(zero.reserve().expect("ids"), none);
}

#[test]
fn a_thousand_threads_and_more_may_come_and_go() {
    let store = store(16 * MIB);
    for _ in 0..12 {
        std::thread::scope(|scope| {
            for thread in 0..100_u64 {
                let store = &store;
                scope.spawn(move || {
                    let id = store.create_with(&thread.to_le_bytes()).expect("room");
                    assert_eq!(store.get_vec(id).expect("there"), thread.to_le_bytes());
                    store.remove(id).expect("there");
                });
            }
        });
    }
    assert_eq!(store.stats().objects, 0);
    store.check().expect("in order");
}

#[test]
fn a_reader_never_sees_memory_that_a_resize_gave_back() {
    let store = store(16 * MIB);
    let ids: Vec<ObjectId> = (0..64).map(|_| store.create_with(&[0; 40]).expect("room")).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2_u8 {
            let (store, ids, done) = (&store, &ids, &done);
            scope.spawn(move || {
                let lens = [40, 3, 900, 41, 2000, 0, 100];
                for round in 0..4000_usize {
                    let id = ids[(round * 7 + usize::from(thread)) % ids.len()];
                    let byte = u8::try_from(round % 250).expect("small");
                    let bytes = vec![byte; lens[(round + usize::from(thread)) % lens.len()]];
                    store.replace(id, &bytes).expect("room");
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        for thread in 0..2_usize {
            let (store, ids, done) = (&store, &ids, &done);
            scope.spawn(move || {
                let mut at = thread;
                while !done.load(Ordering::Relaxed) {
                    let bytes = store.get_vec(ids[at % ids.len()]).expect("there");
                    let first = bytes.first().copied().unwrap_or(0);
                    assert!(bytes.iter().all(|byte| *byte == first), "torn: {bytes:?}");
                    at += 5;
                }
            });
        }
    });
    store.check().expect("in order");
}

#[test]
fn what_little_objects_leave_serves_longer_ones() {
    let store = store(32 * MIB);
    let mut ids = Vec::new();
    while let Ok(id) = store.create(32) {
        ids.push(id);
    }
    assert!(ids.len() * 33 > 31 * MIB, "{} objects of 32 bytes", ids.len());
    let freed: usize =
        ids.iter().step_by(2).map(|id| store.remove(*id).map(|()| 32).expect("there")).sum();
    let mut longer = 0;
    while store.create(48).is_ok() {
        longer += 48;
    }
    store.check().expect("in order");
    let share = longer as f64 / freed as f64;
    assert!(share >= 0.9, "{share:.3} of {freed} freed bytes serve again: {:?}", store.stats());
}

#[test]
fn consecutive_objects_that_do_not_fit_leave_nothing() {
    let store = store(4 * MIB);
    let long = vec![1; MIB];
    let objects: Vec<&[u8]> = (0..8).map(|_| long.as_slice()).collect();
    let error = store.create_consecutive(&objects).expect_err("twice the memory");
    assert!(matches!(error, ObjectError::OutOfMemory { .. }), "{error}");
    let stats = store.stats();
    assert_eq!((stats.objects, stats.object_bytes, stats.reserved), (0, 0, 0), "{stats:?}");
    store.check().expect("in order");
    let first = store.create_consecutive(&objects[..2]).expect("room");
    assert_eq!(store.size(ObjectId::from_bits(first.to_bits() + 1)).expect("there"), MIB);
}

#[test]
fn ids_beyond_32_bits_are_ids_like_others() {
    let store = store(8 * MIB);
    let far = [1 << 31, (1 << 36) - 1, 1 << 36, (1 << 48) - 1].map(|local| ObjectId::new(2, local));
    for id in far {
        store.create_reserved(id, &id.to_bits().to_le_bytes()).expect("another node's");
    }
    for id in far {
        assert_eq!(store.get_vec(id).expect("there"), id.to_bits().to_le_bytes());
    }
    assert_eq!(store.ids(ObjectId::new(2, 1 << 35), 10), far[1..]);
}

#[test]
fn what_is_pinned_is_neither_resized_nor_removed() {
    let store = store(8 * MIB);
    let ids: Vec<ObjectId> = (0..64).map(|_| store.create_with(&[7; 48]).expect("room")).collect();
    let pin = store.pin(ids[9]).expect("room");
    let at = pin.as_ptr();
    assert!(at.addr().is_multiple_of(64) && pin.len() == 48);
    assert!(matches!(store.resize(ids[9], 10), Err(ObjectError::Pinned(_))));
    assert!(matches!(store.replace(ids[9], b"short"), Err(ObjectError::Pinned(_))));
    assert!(matches!(store.remove(ids[9]), Err(ObjectError::Pinned(_))));
    ids.iter().filter(|id| **id != ids[9]).for_each(|id| store.remove(*id).expect("free"));
    store.defragment();
    store.put(ids[9], &[8; 48]).expect("of the same length");
    // SAFETY: the pin keeps the object at its address, and no other thread runs.
    assert!(unsafe { std::slice::from_raw_parts(at, 48) }.iter().all(|byte| *byte == 8));
    let second = store.pin(ids[9]).expect("pinned already");
    assert_eq!(second.as_ptr(), at);
    drop(pin);
    assert!(matches!(store.remove(ids[9]), Err(ObjectError::Pinned(_))), "the second pin holds");
    drop(second);
    store.resize(ids[9], 10).expect("free");
    store.remove(ids[9]).expect("free");
    store.check().expect("in order");
}

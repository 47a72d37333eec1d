//! Full stores, failing operations, and their visibility to other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace_ledger::Ledger;
use terrace_objects::{Backing, LockMode, ObjectConfig, ObjectError, ObjectId, ObjectStore};
use terrace_testkit::Rng;

const MIB: usize = 1 << 20;

fn config(bytes: usize) -> ObjectConfig {
    ObjectConfig::new("full", Backing::Dram { bytes })
}

fn store(bytes: usize) -> ObjectStore {
    ObjectStore::new(config(bytes)).expect("memory")
}

/// Returns a store that is full of objects of 16 to 128 bytes.
fn filled(bytes: usize, rng: &mut Rng) -> (ObjectStore, Vec<ObjectId>) {
    let (store, mut ids) = (store(bytes), Vec::new());
    loop {
        match store.create(16 + rng.index(113)) {
            Ok(id) => ids.push(id),
            Err(ObjectError::OutOfMemory { .. }) => return (store, ids),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Not a measurement: this takes minutes if every operation walks all slabs and groups.
#[test]
fn operations_on_a_full_store_are_answered_soon() {
    let mut rng = Rng::new(1);
    let (store, mut ids) = filled(128 * MIB, &mut rng);
    let begun = Instant::now();
    for _ in 0..20_000 {
        let refused = store.create(128).map_or_else(Some, |id| store.remove(id).err());
        assert!(matches!(refused, None | Some(ObjectError::OutOfMemory { .. })), "{refused:?}");
    }
    for id in ids.iter().step_by(64).take(5000) {
        assert!(matches!(store.resize(*id, 900), Ok(()) | Err(ObjectError::OutOfMemory { .. })));
    }
    // A tenth of the objects is removed, and others replace them for a while.
    let removed = ids.len() / 10;
    for _ in 0..removed {
        let id = ids.swap_remove(rng.index(ids.len()));
        store.remove(id).expect("there");
    }
    for _ in 0..50_000 {
        let n = rng.index(ids.len());
        store.remove(ids[n]).expect("there");
        ids[n] = store.create(16 + rng.index(113)).expect("a tenth is free");
    }
    store.defragment();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    store.check().expect("in order");
}

#[test]
fn slabs_of_threads_that_are_gone_serve_others() {
    let store = store(8 * MIB);
    for _ in 0..6 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let id = store.create(32).expect("room");
                store.remove(id).expect("there");
            });
        });
    }
    let id = store.create(3 * MIB).expect("nothing else is in the store");
    store.remove(id).expect("there");
    store.defragment();
    assert_eq!(store.stats().held_bytes, 0);
}

#[test]
fn consecutive_ids_are_used_again() {
    let store = store(4 * MIB);
    let lens: [&[usize]; 4] = [&[32; 64], &[7; 64], &[8; 200], &[0; 3]];
    let mut most = 0;
    for round in 0..4000 {
        let bytes: Vec<Vec<u8>> = lens[round % 4].iter().map(|len| vec![1; *len]).collect();
        let slices: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let first = store.create_consecutive(&slices).expect("room");
        for (id, bytes) in (first.to_bits()..).map(ObjectId::from_bits).zip(slices) {
            assert_eq!(store.get_vec(id).expect("made"), bytes);
            store.remove(id).expect("made");
        }
        let reserved = store.reserve_consecutive(70).expect("ids");
        (0..70).for_each(|n| {
            store.release(ObjectId::from_bits(reserved.to_bits() + n)).expect("reserved");
        });
        most = most.max(store.stats().ids);
    }
    assert!(most < 64 * 64, "{most} ids were given out for 200 at a time");
    assert_eq!(store.create_consecutive(&[]).expect("nothing").to_bits(), 0);
    assert_eq!((store.stats().objects, store.stats().reserved), (0, 0));
    store.check().expect("in order");
}

/// A thread that searches for new objects and locks them cannot leave a failed batch half done.
#[test]
fn consecutive_objects_without_room_are_never_seen() {
    let store = store(6 * MIB);
    let known: Vec<ObjectId> = (0..100).map(|_| store.create(40).expect("room")).collect();
    let big = vec![1; 100_000];
    let lists = [vec![&big[..]; 64], vec![&big[..64]; 200_000]];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for id in store.ids(ObjectId::from_bits(0), usize::MAX) {
                    assert!(known.contains(&id), "{id} is seen");
                }
            }
        });
        for _ in 0..20 {
            for list in &lists {
                let error = store.create_consecutive(list).expect_err("there is no room");
                assert!(matches!(error, ObjectError::OutOfMemory { .. }), "{error}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!((store.stats().objects, store.stats().reserved), (100, 0));
    known.iter().for_each(|id| store.remove(*id).expect("there"));
    store.defragment();
    assert_eq!((store.stats().held_bytes, store.stats().used_bytes), (0, 0));
    store.check().expect("in order");
}

#[test]
fn counts_are_right_at_any_moment() {
    let store = store(32 * MIB);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while !done.load(Ordering::Relaxed) {
                    let id = store.create(rng.index(100)).expect("room");
                    store.resize(id, rng.index(100)).expect("room");
                    store.remove(id).expect("there");
                }
            });
        }
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            store.check().expect("in order");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_guards_hold_is_given_back_by_them_alone() {
    let store = store(4 * MIB);
    let id = store.create(8).expect("room");
    let pin = store.pin(id).expect("there");
    assert!(matches!(store.unpin(id), Err(ObjectError::NotPinned(_))));
    assert!(matches!(store.remove(id), Err(ObjectError::Pinned(_))));
    store.pin_raw(id).expect("there");
    drop(pin);
    assert!(matches!(store.remove(id), Err(ObjectError::Pinned(_))));
    store.unpin(id).expect("pinned");
    let read = store.read_lock(id, Duration::ZERO).expect("free");
    assert!(matches!(store.unlock(id, LockMode::Read), Err(ObjectError::NotLocked(_))));
    assert!(matches!(store.upgrade(id, Duration::ZERO), Err(ObjectError::NotLocked(_))));
    let write = read.upgrade(Duration::ZERO).expect("alone");
    assert!(matches!(store.unlock(id, LockMode::Write), Err(ObjectError::NotLocked(_))));
    assert!(matches!(store.downgrade(id), Err(ObjectError::NotLocked(_))));
    drop(write);
    store.lock(id, LockMode::Read, Duration::ZERO).expect("free");
    store.upgrade(id, Duration::ZERO).expect("alone");
    store.downgrade(id).expect("held");
    store.unlock(id, LockMode::Read).expect("held");
    assert_eq!(store.held(), 0);
}

/// A stream of readers does not starve a writer.
#[test]
fn changes_go_before_readers_that_come_later() {
    let store =
        ObjectStore::new(ObjectConfig { patience: Duration::from_secs(20), ..config(MIB * 4) });
    let store = store.expect("memory");
    let id = store.create(8).expect("room");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let guard = store.read_lock(id, Duration::MAX).expect("there");
                    std::thread::sleep(Duration::from_millis(3));
                    drop(guard);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        for n in 0..10 {
            store.put(id, &[n; 8]).expect("soon");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.held(), 0);
}

/// Creates an object of 500 MiB while another thread reads one of 1,500 bytes. Returns the time of
/// the longest read, and that of the creation.
fn read_beside_a_creation(store: &ObjectStore, near: ObjectId) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let begun = Instant::now();
            let id = store.create(500 * MIB).expect("room");
            let took = begun.elapsed();
            done.store(true, Ordering::Relaxed);
            store.remove(id).expect("there");
            took
        });
        let (mut bytes, mut longest) = ([0; 1500], Duration::ZERO);
        while !done.load(Ordering::Relaxed) {
            let begun = Instant::now();
            store.get(near, &mut bytes).expect("there");
            longest = longest.max(begun.elapsed());
        }
        (longest, maker.join().expect("no panic"))
    })
}

/// A long object is copied before its group is latched.
#[test]
fn short_objects_do_not_wait_for_long_ones() {
    let store = store(640 * MIB);
    let near = store.create(1500).expect("room");
    let times = [(); 5].map(|()| read_beside_a_creation(&store, near));
    // Other processes may delay some reads.
    assert!(times.iter().any(|(longest, took)| *longest < *took / 2), "{times:?}");
}

#[test]
fn reads_of_pinned_objects_disturb_no_thread_and_they_come_home() {
    let store = store(4 * MIB);
    let ids: Vec<ObjectId> = (0..300).map(|_| store.create(32).expect("room")).collect();
    let before = store.check().expect("in order");
    // Defragmentation skips groups that are being filled.
    let full = &ids[80..200];
    let pins: Vec<_> = full.iter().step_by(5).map(|id| store.pin(*id).expect("there")).collect();
    ids.iter().for_each(|id| assert_eq!(store.get_vec(*id).expect("there"), [0; 32]));
    store.defragment();
    for pin in &pins {
        assert_eq!(pin.as_ptr().addr() % 64, 0);
    }
    drop(pins);
    store.defragment();
    assert_eq!(store.check().expect("in order"), before);
}

#[test]
fn ids_of_other_nodes_are_paid_for() {
    let ledger = Ledger::new(8 * MIB as u64);
    let budget = ObjectConfig { ledger: Some(ledger.clone()), ..config(64 * MIB) };
    let store = ObjectStore::new(budget).expect("memory");
    let mut made = 0;
    let error = loop {
        match store.create_reserved(ObjectId::new(3, made << 20), b"far apart") {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 4000, "the budget is not kept");
    };
    assert!(matches!(error, ObjectError::OutOfMemory { .. }), "{error}");
    assert!(made > 1000, "{made}");
    store.check().expect("in order");
}

#[test]
fn more_memory_than_groups_can_name_is_refused() {
    let error = ObjectStore::new(config(8 << 40)).expect_err("8 TiB");
    assert!(error.to_string().contains("4TiB"), "{error}");
}

thread_local! {
    static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
}

/// Removes an object when its thread ends.
struct Last(std::sync::Arc<ObjectStore>, ObjectId);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.remove(self.1).expect("there");
    }
}

#[test]
fn threads_use_objects_to_their_end() {
    let store = std::sync::Arc::new(store(4 * MIB));
    let ids: Vec<ObjectId> = (0..20).map(|len| store.create(len).expect("room")).collect();
    let (theirs, id) = (std::sync::Arc::clone(&store), ids[7]);
    let thread = std::thread::spawn(move || {
        LAST.set(Some(Last(std::sync::Arc::clone(&theirs), id)));
        theirs.resize(ObjectId::from_bits(id.to_bits() + 1), 99).expect("there");
    });
    thread.join().expect("no panic");
    assert!(!store.exists(id));
}

/// The reason of a refusal does not depend on free room.
#[test]
fn full_stores_refuse_for_the_reason_there_is() {
    let store = store(8 * MIB);
    let (long, other) = (vec![1; 300 << 10], vec![2; 300 << 10]);
    let id = store.create_with(&long).expect("room");
    while store.create(64 << 10).is_ok() {}
    while store.create(64).is_ok() {}
    let refused = |bytes: &[u8]| store.replace(id, bytes).expect_err("no room for two");
    assert!(matches!(refused(&other[..200 << 10]), ObjectError::OutOfMemory { .. }));

    store.replace(id, &other).expect("as many bytes need no more room");
    assert_eq!(store.get_vec(id).expect("there"), other);
    let pin = store.pin(id).expect("it has a run of its own");
    assert!(matches!(refused(&other[..200 << 10]), ObjectError::Pinned(_)));
    drop(pin);
    store.set_read_only(id, true).expect("room for a header");
    assert!(matches!(refused(&other), ObjectError::ReadOnly(_)));
    store.set_read_only(id, false).expect("room for none");
    store.remove(id).expect("there");
    assert!(matches!(refused(&vec![0; 1 << 20]), ObjectError::NotFound(_)));
    store.check().expect("in order");
}

/// A run that fits no hole of the slabs in use stays where it is: moving it would take one more
/// slab, as a pinned object keeps the old one in use.
#[test]
fn defragmentation_never_holds_more_than_before() {
    let store = store(32 * MIB);
    let short: Vec<_> = (0..1984).map(|_| store.create(1000).expect("room")).collect();
    let long: Vec<_> = (0..24).map(|_| store.create(60_000).expect("room")).collect();
    let _pin = store.pin(long[12]).expect("it has a run of its own");
    for id in short.iter().step_by(2).chain(&long[..8]).chain(&long[16..]) {
        store.remove(*id).expect("there");
    }
    for _ in 0..3 {
        let done = store.defragment();
        assert!(done.held_bytes_after <= done.held_bytes_before, "{done:?}");
    }
    store.check().expect("in order");
}

/// Two threads that create objects concurrently share no cache line.
#[test]
fn threads_make_objects_in_groups_apart() {
    let store = store(16 * MIB);
    let turns = std::sync::Barrier::new(2);
    // The cache line of each object's group.
    let make = || {
        let one = |_| {
            turns.wait();
            store.create(32).expect("room").to_bits() / 256
        };
        (0..2000).map(one).collect::<Vec<u64>>()
    };
    let (one, two) = std::thread::scope(|scope| {
        let two = scope.spawn(make);
        (make(), two.join().expect("no panic"))
    });
    assert!(one.iter().all(|line| !two.contains(line)), "{one:?} and {two:?}");
}

/// Runs `work` on a store of 64 MiB in another thread for as long as `look` runs.
fn beside(work: impl Fn(&ObjectStore) + Sync, look: impl FnOnce(&ObjectStore)) {
    let (store, done) = (store(64 * MIB), AtomicBool::new(false));
    (0..1000).for_each(|_| assert!(store.create(100).is_ok()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                work(&store);
            }
        });
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(&store)));
        done.store(true, Ordering::Relaxed);
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    store.check().expect("in order");
}

/// Runs placed ahead of their objects, and groups not yet visible, are no damage.
#[test]
fn stores_are_in_order_beside_everything() {
    let checked = |store: &ObjectStore| {
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            store.check().unwrap_or_else(|error| panic!("{error}"));
        }
    };
    let long = |store: &ObjectStore| {
        let id = store.create_with(&[1; 20_000]).expect("room");
        store.replace(id, &[2; 30_000]).expect("room");
        store.remove(id).expect("there");
    };
    beside(long, checked);
    let rows = |store: &ObjectStore| {
        let first = store.create_consecutive(&[&[1; 40][..]; 200]).expect("room").to_bits();
        (first..first + 200).for_each(|id| store.remove(ObjectId::from_bits(id)).expect("made"));
    };
    beside(rows, checked);
}

/// Consecutive ids are reserved before their objects exist, and any thread can guess them.
#[test]
fn ids_that_are_guessed_do_no_harm() {
    for count in [20, 130_u8] {
        let last = std::sync::atomic::AtomicU64::new(64);
        let guess = |store: &ObjectStore| {
            let at = last.load(Ordering::Relaxed);
            for n in 0..2 * u64::from(count) {
                let id = ObjectId::from_bits(at + n);
                if n % 3 == 0 {
                    let _ = store.release(id);
                } else if store.create_reserved(id, &[9; 40]).is_ok() {
                    store.remove(id).expect("only this thread knows it");
                }
            }
        };
        let objects: Vec<Vec<u8>> = (0..count).map(|n| vec![n; 40]).collect();
        let objects: Vec<&[u8]> = objects.iter().map(Vec::as_slice).collect();
        beside(guess, |store| {
            for _ in 0..4000 {
                let first = store.create_consecutive(&objects).expect("room").to_bits();
                last.store(first, Ordering::Relaxed);
                for (id, bytes) in (first..).map(ObjectId::from_bits).zip(&objects) {
                    assert_eq!(store.get_vec(id).expect("made"), *bytes, "{id}");
                }
                let ids = (first..).map(ObjectId::from_bits).take(objects.len());
                ids.for_each(|id| store.remove(id).expect("made"));
            }
        });
    }
}

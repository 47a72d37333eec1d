//! Stores whose ids have generations, so that an id never names a second object.

use std::collections::HashSet;
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_objects::{
    Backing, Batch, Durability, LockMode, LogConfig, ObjectConfig, ObjectError, ObjectId,
    ObjectStore,
};
use terrace_testkit::{Rng, with_seed};

const MIB: usize = 1 << 20;

fn config() -> ObjectConfig {
    let memory = Backing::Dram { bytes: 16 * MIB };
    ObjectConfig { generations: true, node: 2, ..ObjectConfig::new("generations", memory) }
}

fn store() -> ObjectStore {
    ObjectStore::new(config()).expect("memory")
}

/// Checks that all operations with the id of a removed object find nothing.
fn assert_stale(store: &ObjectStore, id: ObjectId) {
    let mut bytes = [0; 64];
    let mut batch = Batch::new();
    store.get_many(&[id], &mut batch);
    let refused = [
        store.get(id, &mut bytes).err(),
        store.get_vec(id).err(),
        store.size(id).err(),
        store.read_at(id, 0, &mut []).err(),
        store.put(id, &[7; 32]).err(),
        store.write_at(id, 0, &[]).err(),
        store.replace(id, b"other").err(),
        store.resize(id, 3).err(),
        store.set_read_only(id, true).err(),
        store.is_read_only(id).err(),
        store.lock(id, LockMode::Read, Duration::ZERO).err(),
        store.write_lock(id, Duration::ZERO).err(),
        store.pin(id).err(),
        store.put_many(&[(id, b"x")]).remove(0).err(),
        store.remove_many(&[id]).remove(0).err(),
        store.remove(id).err(),
    ];
    for (n, error) in refused.into_iter().enumerate() {
        assert!(matches!(error, Some(ObjectError::NotFound(it)) if it == id), "{n}: {error:?}");
    }
    assert!(matches!(batch.get(0), Err(ObjectError::NotFound(_))));
    assert!(!store.exists(id));
    assert!(matches!(store.release(id), Err(ObjectError::NotReserved(_))));
    assert!(matches!(store.create_reserved(id, b"again"), Err(ObjectError::NotReserved(_))));
    assert!(matches!(store.unlock(id, LockMode::Read), Err(ObjectError::NotLocked(_))));
    assert!(matches!(store.unpin(id), Err(ObjectError::NotPinned(_))));
}

#[test]
fn an_id_names_one_object_ever() {
    let store = store();
    let (mut given, mut stale) = (HashSet::new(), Vec::new());
    let mut rng = Rng::new(3);
    let mut live: Vec<ObjectId> = Vec::new();
    for round in 0..100_000 {
        let id = match rng.below(8) {
            0 => {
                let id = store.reserve().expect("ids");
                assert!(given.insert(id), "{id} was given out before");
                if rng.one_in(2) {
                    store.release(id).expect("reserved");
                    stale.push(id);
                    continue;
                }
                store.create_reserved(id, &[1; 32]).expect("reserved");
                live.push(id);
                continue;
            }
            _ => store.create([32, 40, 7][rng.index(3)]).expect("room"),
        };
        assert!(given.insert(id), "{id} was given out before, round {round}");
        assert_eq!(id.node(), 2);
        live.push(id);
        while live.len() > 100 {
            let id = live.swap_remove(rng.index(live.len()));
            store.remove(id).expect("there");
            stale.push(id);
        }
    }
    for _ in 0..200 {
        assert_stale(&store, stale[rng.index(stale.len())]);
    }
    live.iter().for_each(|id| assert!(store.exists(*id), "{id}"));
    // 255 objects had the same slot, one after the other, before the next one was used.
    assert!(store.stats().ids < 3000, "{:?}", store.stats());
    assert_eq!(store.ids(ObjectId::from_bits(0), usize::MAX).len(), live.len());
    let held = store.write_lock(live[0], Duration::ZERO).expect("free");
    held.remove().expect("there");
    assert_stale(&store, live[0]);
    store.check().expect("in order");
}

#[test]
fn consecutive_ids_follow_one_another() {
    let store = store();
    let mut given = HashSet::new();
    for round in 0..2000 {
        let objects = vec![&b"some bytes"[..]; [5, 64, 200][round % 3]];
        let first = store.create_consecutive(&objects).expect("room");
        let ids: Vec<ObjectId> =
            (first.to_bits()..).map(ObjectId::from_bits).take(objects.len()).collect();
        for id in &ids {
            assert!(given.insert(*id), "{id} was given out before");
            assert_eq!(store.get_vec(*id).expect("made"), b"some bytes");
        }
        if round % 5 == 0 {
            store.create(10).expect("room");
        }
        ids.iter().for_each(|id| store.remove(*id).expect("made"));
        assert_stale(&store, ids[round % ids.len()]);
    }
    store.check().expect("in order");
}

#[test]
fn ids_of_other_nodes_have_generations_too() {
    let store = store();
    let id = |generation: u64| ObjectId::new(9, generation << 40 | 77);
    store.create_reserved(id(3), b"third").expect("a free id");
    assert_stale(&store, id(2));
    assert!(matches!(store.create_reserved(id(4), b"too early"), Err(ObjectError::NotReserved(_))));
    store.remove(id(3)).expect("there");
    store.create_reserved(id(9), b"ninth").expect("a free id");
    assert_eq!(store.get_vec(id(9)).expect("there"), b"ninth");
    assert_eq!(store.ids(ObjectId::new(9, 0), 10), [id(9)]);
    // The last generation, which no id has.
    let no_id = ObjectId::new(9, (255 << 40) | 5);
    assert!(matches!(store.create_reserved(no_id, b""), Err(ObjectError::NotReserved(_))));
    let oldest = ObjectId::new(9, (254 << 40) | 5);
    for _ in 0..3 {
        store.create_reserved(oldest, b"comes and goes").expect("a free id");
        store.remove(oldest).expect("there");
        assert_eq!(store.stats().reserved, 0);
    }
    let last = ObjectId::new(9, 5 << 40 | ((1 << 40) - 1));
    store.create_reserved(last, b"last").expect("a free id");
    assert_eq!(store.ids_after(ObjectId::from_bits(0), 10), [id(9), last]);
    assert_eq!(store.ids_after(id(9), 10), [last]);
    assert_eq!(store.ids_after(last, 10), []);
    assert_eq!(store.id_ranges(), [(id(9), id(9)), (last, last)]);
}

/// Returns the bytes that a store, the only consumer, has charged to its budget.
fn granted(generations: bool, fill: impl Fn(&ObjectStore)) -> (u64, u64) {
    let ledger = Ledger::new(1 << 30);
    let config = ObjectConfig { generations, ledger: Some(ledger.clone()), ..config() };
    let store = ObjectStore::new(config).expect("memory");
    fill(&store);
    (ledger.granted(), store.stats().table_bytes)
}

#[test]
fn generations_count_against_the_budget() {
    type Fill = fn(&ObjectStore);
    let own: Fill = |store| (0..6400).for_each(|_| assert!(store.create(0).is_ok()));
    let foreign: Fill = |store| {
        let id = |n: u64| ObjectId::new(9, n << 20);
        (1..=100).for_each(|n| assert!(store.create_reserved(id(n), b"").is_ok()));
    };
    // 64 bytes for each group of own ids, and for each of the 128 in a part for others.
    for (fill, least) in [(own, 100 * 64), (foreign, 100 * 128 * 64)] {
        let (without, with) = (granted(false, fill), granted(true, fill));
        assert!(with.0 >= without.0 + least, "budget: {without:?}, {with:?}");
        assert!(with.1 >= without.1 + least, "statistics: {without:?}, {with:?}");
        assert!(with.1 <= with.0, "{with:?}");
    }
}

/// A slot serves 255 objects, is then counted as retired, and stays counted.
#[test]
fn places_that_are_worn_out_are_counted() {
    const ROUNDS: u64 = 40 * 255;
    let scratch = tempfile::tempdir().expect("a directory");
    let log = LogConfig { durability: Durability::Deferred, ..LogConfig::new(scratch.path()) };
    let (store, _) = ObjectStore::open(config(), log.clone()).expect("empty");
    let turn = |rounds: u64| {
        for _ in 0..rounds {
            let id = store.create(32).expect("ids");
            store.remove(id).expect("there");
        }
    };
    // A length that is not yet frequent uses another slot.
    turn(15);
    turn(ROUNDS);
    let kept = store.reserve().expect("ids");
    let counted = |store: &ObjectStore| (store.stats().retired, store.stats().reserved);
    assert_eq!(counted(&store), (40, 1));
    let mut dump = Vec::new();
    store.dump_to(&mut dump).expect("memory");
    let restored = ObjectStore::restore_from(config(), &dump[..]).expect("whole");
    assert_eq!(counted(&restored), (40, 1));
    // The dump has later changes than the beginning of the log that is read after it.
    std::thread::scope(|scope| {
        let turning = scope.spawn(|| turn(ROUNDS));
        while !turning.is_finished() {
            store.checkpoint().expect("room");
        }
    });
    store.release(kept).expect("reserved");
    let before = counted(&store);
    assert!(before.0 >= 79 && before.1 == 0, "{before:?}");
    drop(store);
    let (store, _) = ObjectStore::open(config(), log).expect("sound");
    assert_eq!(counted(&store), before);
    store.check().expect("in order");
}

#[test]
fn dumps_and_logs_keep_generations() {
    with_seed(|seed| {
        let scratch = tempfile::tempdir().expect("a directory");
        let log = LogConfig { durability: Durability::Deferred, ..LogConfig::new(scratch.path()) };
        let mut rng = Rng::new(seed);
        let (mut live, mut given, mut stale) = (Vec::new(), HashSet::new(), Vec::new());
        for round in 0..8 {
            let (store, _) = ObjectStore::open(config(), log.clone()).expect("sound");
            live.iter().for_each(|id| assert_eq!(store.get_vec(*id).expect("there"), [9; 20]));
            for _ in 0..3000 {
                let id = store.create_with(&[9; 20]).expect("room");
                assert!(given.insert(id), "{id} was given out before");
                live.push(id);
                while live.len() > 50 {
                    let id = live.swap_remove(rng.index(live.len()));
                    store.remove(id).expect("there");
                    stale.push(id);
                }
                if rng.below(1000) == 0 {
                    store.checkpoint().expect("room");
                }
            }
            let mut dump = Vec::new();
            store.dump_to(&mut dump).expect("memory");
            let restored = ObjectStore::restore_from(config(), &dump[..]).expect("whole");
            for store in [&store, &restored] {
                store.check().expect("in order");
                (0..50).for_each(|_| assert_stale(store, stale[rng.index(stale.len())]));
                let id = store.create(5).expect("room");
                assert!(!given.contains(&id), "{id} was given out before, round {round}");
                store.remove(id).expect("there");
            }
            assert_eq!(restored.stats().objects, live.len() as u64);
            let plain = ObjectConfig { generations: false, ..config() };
            let error =
                ObjectStore::restore_from(plain.clone(), &dump[..]).expect_err("no generations");
            assert!(error.to_string().contains("generations"), "{error}");
            drop(store);
            let error = ObjectStore::open(plain, log.clone()).expect_err("no generations");
            assert!(error.to_string().contains("generations"), "{error}");
        }
    });
}

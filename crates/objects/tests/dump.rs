//! Dumps: complete, of one moment, and checksummed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_objects::{Backing, ObjectConfig, ObjectError, ObjectId, ObjectStore};
use terrace_testkit::{Rng, soak_time, with_seed};

const MIB: usize = 1 << 20;

fn config(bytes: usize) -> ObjectConfig {
    ObjectConfig::new("dumped", Backing::Dram { bytes })
}

fn store(bytes: usize) -> ObjectStore {
    ObjectStore::new(config(bytes)).expect("memory")
}

/// Contents that a dump must have.
#[derive(Debug, PartialEq)]
struct Contents {
    objects: BTreeMap<ObjectId, (Vec<u8>, bool)>,
    reserved: u64,
}

fn contents(store: &ObjectStore) -> Contents {
    let object = |id: ObjectId| {
        let read_only = store.is_read_only(id).expect("there");
        (id, (store.get_vec(id).expect("there"), read_only))
    };
    let ids = store.ids(ObjectId::from_bits(0), usize::MAX);
    Contents { objects: ids.into_iter().map(object).collect(), reserved: store.stats().reserved }
}

/// Creates objects of all kinds.
fn fill(store: &ObjectStore, rng: &mut Rng) {
    let mut bytes = |len: usize| {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        bytes
    };
    for n in 0..500 {
        store.create_with(&bytes(32)).expect("room");
        store.create_with(&bytes(n % 90)).expect("room");
    }
    for len in [0, 1, 1008, 1009, 5000, MIB, MIB + 1, 2 * MIB + 77] {
        store.create_with(&bytes(len)).expect("room");
    }
    let lines: Vec<Vec<u8>> = (0..150).map(|n| bytes(n % 7)).collect();
    let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    store.create_consecutive(&lines).expect("room");
    let all = store.ids(ObjectId::from_bits(0), usize::MAX);
    all.iter().step_by(7).for_each(|id| store.remove(*id).expect("there"));
    let kept = store.ids(ObjectId::from_bits(0), usize::MAX);
    kept.iter().step_by(11).for_each(|id| store.set_read_only(*id, true).expect("there"));
    for local in [1, 64, 65, 1 << 40] {
        store.create_reserved(ObjectId::new(9, local), &bytes(20)).expect("a free id");
    }
    for _ in 0..100 {
        store.reserve().expect("ids");
    }
    store.reserve_consecutive(200).expect("ids");
}

#[test]
fn a_store_is_restored_as_it_was() {
    with_seed(|seed| {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("objects.dump");
        let store = store(32 * MIB);
        fill(&store, &mut Rng::new(seed));
        let before = contents(&store);
        let held = before.objects.keys().next().copied().expect("objects");
        // Locks and pins are not part of a dump.
        let _pin = store.pin(held).expect("there");
        let _locked = store.write_lock(held, Duration::ZERO).expect("free");
        let dumped = store.dump(&path).expect("written");
        assert_eq!(dumped.objects, store.stats().objects);
        assert_eq!(dumped.object_bytes, store.stats().object_bytes);
        assert_eq!(dumped.dump_bytes, path.metadata().expect("there").len());
        drop((_locked, _pin));
        let other_node = ObjectConfig { node: 4, ..config(64 * MIB) };
        for config in [config(32 * MIB), config(640 * MIB), other_node] {
            let restored = ObjectStore::restore(config, &path).expect("whole");
            assert_eq!(contents(&restored), before);
            restored.check().expect("in order");
            assert_eq!(restored.held(), 0);
            // Free ids are used again, and all others are in use.
            let ids = restored.stats().ids;
            for _ in 0..50 {
                let id = restored.create(32).expect("room");
                assert!(!before.objects.contains_key(&id), "{id}");
            }
            assert!(restored.node() == 4 || restored.stats().ids == ids);
            restored.check().expect("in order");
        }
        let names = std::fs::read_dir(scratch.path()).expect("a directory").count();
        assert_eq!(names, 1, "nothing unfinished stays");
    });
}

#[test]
fn a_smaller_store_says_that_it_is() {
    let store = store(32 * MIB);
    (0..200_000).for_each(|_| assert!(store.create(64).is_ok()));
    let mut dump = Vec::new();
    store.dump_to(&mut dump).expect("memory");
    let error = ObjectStore::restore_from(config(4 * MIB), &dump[..]).expect_err("too small");
    assert!(matches!(error, ObjectError::OutOfMemory { .. }), "{error}");
}

#[test]
fn damage_is_found_and_what_is_before_it_is_restored() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("objects.dump");
    let store = store(16 * MIB);
    for n in 0..100_000_u64 {
        store.create_with(&[n.to_le_bytes(); 4].concat()).expect("room");
    }
    let before = contents(&store);
    store.dump(&path).expect("written");
    let whole = std::fs::read(&path).expect("there");
    assert!(whole.len() > 3 * MIB);
    let mut rng = Rng::new(5);
    for round in 0..60 {
        let mut damaged = whole.clone();
        let at = rng.index(whole.len());
        if round % 2 == 0 {
            damaged[at] ^= 1 << rng.below(8);
        } else {
            damaged.truncate(at);
        }
        std::fs::write(&path, &damaged).expect("written");
        let error = ObjectStore::restore(config(16 * MIB), &path).expect_err("damaged");
        assert!(matches!(error, ObjectError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("objects.dump"), "{error}");
        let (part, error) = ObjectStore::restore_part(config(16 * MIB), &path).expect("readable");
        assert!(matches!(error, Some(ObjectError::Corrupt { .. })), "{error:?}");
        part.check().expect("in order");
        let found = contents(&part).objects;
        let least = (at / MIB).saturating_sub(1) * (MIB / 40);
        assert!(found.len() >= least, "{} of {} before {at}", found.len(), before.objects.len());
        found.iter().for_each(|(id, object)| assert_eq!(before.objects.get(id), Some(object)));
    }
    std::fs::write(&path, b"no dump at all, but a text that is long enough to be one of them.")
        .expect("written");
    let error = ObjectStore::restore(config(16 * MIB), &path).expect_err("a text");
    assert!(error.to_string().contains("does not begin"), "{error}");
}

/// Pairs of counters, far from each other, that count together: the second is never ahead.
struct Pairs {
    store: ObjectStore,
    pairs: Vec<(ObjectId, ObjectId)>,
}

const PAIRS: usize = 20_000;
/// Number of long pairs, the last ones, whose groups are copied by the dump alone.
const LONG: usize = 64;

impl Pairs {
    fn new() -> Self {
        let store = store(64 * MIB);
        let len = |n: usize, len: usize| if n < PAIRS - LONG { len } else { 40_000 };
        let make =
            |short: usize| (0..PAIRS).map(|n| store.create(len(n, short)).expect("room")).collect();
        let (first, second): (Vec<_>, Vec<_>) = (make(8), make(24));
        let pairs = first.into_iter().zip(second).collect();
        Self { store, pairs }
    }

    /// Counts with the pairs of one thread, in an order unrelated to that of a dump.
    fn count(&self, own: usize, of: usize, rng: &mut Rng) {
        let n = if rng.one_in(8) { PAIRS - of + own } else { rng.index(PAIRS / of) * of + own };
        let (first, second) = self.pairs[n];
        let mut bytes = [0; 8];
        self.store.read_at(first, 0, &mut bytes).expect("there");
        let next = (u64::from_le_bytes(bytes) + 1).to_le_bytes();
        self.store.write_at(first, 0, &next).expect("there");
        match rng.below(4) {
            _ if n >= PAIRS - LONG => self.store.write_at(second, 0, &next),
            0 => self.store.replace(second, &[&next[..], &vec![1; rng.index(80)]].concat()),
            1 => {
                let mut bytes = self.store.get_vec(second).expect("there");
                bytes[..8].copy_from_slice(&next);
                self.store.put(second, &bytes)
            }
            _ => self.store.write_at(second, 0, &next),
        }
        .expect("there");
    }

    /// Number of pairs whose counters differ in the dump.
    fn between(&self, dump: &[u8]) -> u64 {
        let restored = ObjectStore::restore_from(config(64 * MIB), dump).expect("whole");
        restored.check().expect("in order");
        let number = |id| {
            let bytes = restored.get_vec(id).expect("dumped");
            u64::from_le_bytes(bytes[..8].try_into().expect("as long"))
        };
        let mut between = 0;
        for (first, second) in &self.pairs {
            let (first, second) = (number(*first), number(*second));
            assert!(first == second || first == second + 1, "{first} and {second}");
            between += u64::from(first != second);
        }
        between
    }
}

/// A slow file.
struct Slow(Vec<u8>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_millis(1));
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stops the writers, also after a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_dump_is_of_one_moment() {
    const WRITERS: usize = 4;
    with_seed(|seed| {
        let world = Pairs::new();
        let (done, counted) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (world, done, counted) = (&world, &done, &counted);
            for own in 0..WRITERS {
                scope.spawn(move || {
                    let mut rng = Rng::new(seed ^ own as u64);
                    while !done.load(Ordering::Relaxed) {
                        world.count(own, WRITERS, &mut rng);
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    world.store.defragment();
                }
            });
            let _end = End(done);
            let (mut kept, mut dumps) = (0, 0);
            let end = std::time::Instant::now() + soak_time();
            while dumps < 3 || std::time::Instant::now() < end {
                let mut file = Slow(Vec::new());
                kept += world.store.dump_to(&mut file).expect("memory").kept_groups;
                assert!(world.between(&file.0) <= WRITERS as u64, "the dump is of several moments");
                dumps += 1;
            }
            assert!(kept > 0, "no group changed while it was dumped");
        });
        assert!(counted.load(Ordering::Relaxed) > 100);
        world.store.check().expect("in order");
    });
}

/// A writer that fails after so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_millis(1));
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_dump_that_failed_is_forgotten() {
    let world = Pairs::new();
    let mut rng = Rng::new(8);
    for room in [0, 63, 64, 80, 100_000, 600_000] {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut rng = Rng::new(room as u64);
                while !done.load(Ordering::Relaxed) {
                    world.count(0, 1, &mut rng);
                }
            });
            let error = world.store.dump_to(Full(room)).expect_err("no room");
            assert!(matches!(error, ObjectError::Stream(_)), "{error}");
            done.store(true, Ordering::Relaxed);
            writer.join().expect("no panic");
        });
        (0..100).for_each(|_| world.count(0, 1, &mut rng));
        let mut file = Vec::new();
        world.store.dump_to(&mut file).expect("memory");
        assert_eq!(world.between(&file), 0, "{room}");
    }
    let nowhere = std::path::Path::new("/nowhere/at/all");
    let error = world.store.dump(nowhere).expect_err("no such directory");
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

/// Changes that are faster than the dump can be written wait for it.
#[test]
fn changes_wait_for_a_dump_that_keeps_too_much() {
    // In the second round, groups are copied by the dump alone.
    for (count, len) in [(3000, 10_000), (300, 100_000)] {
        let store = store(256 * MIB);
        let ids: Vec<ObjectId> = (0..count).map(|_| store.create(len).expect("room")).collect();
        let mut file = Slow(Vec::new());
        std::thread::scope(|scope| {
            let dump = scope.spawn(|| store.dump_to(&mut file).expect("memory"));
            for round in 0..20 {
                for id in ids.iter().rev() {
                    store.write_at(*id, 0, &[round]).expect("there");
                }
            }
            let dumped = dump.join().expect("no panic");
            assert_eq!((dumped.objects, dumped.object_bytes), (count, 30_000_000));
        });
        let restored = ObjectStore::restore_from(config(256 * MIB), &file.0[..]).expect("whole");
        restored.check().expect("in order");
        assert_eq!(restored.stats().objects, count);
    }
}

/// A dump being written, with a callback for each write.
struct Meanwhile<'a> {
    file: Vec<u8>,
    longest: usize,
    look: &'a mut dyn FnMut(usize),
}

impl Write for Meanwhile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.longest = self.longest.max(bytes.len());
        self.file.extend_from_slice(bytes);
        (self.look)(self.file.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn long_objects_are_written_by_pieces_and_can_be_read_meanwhile() {
    let store = store(256 * MIB);
    let old = vec![1; 3 * MIB + 5];
    let ids: Vec<ObjectId> = (0..20).map(|_| store.create_with(&old).expect("room")).collect();
    let (begun, changed) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut read = 0;
    let mut look = |written| {
        // The head is written before the moment of the dump.
        begun.store(written > 1000, Ordering::Relaxed);
        if changed.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut bytes = [0; 8];
        store.read_at(ids[19], 77, &mut bytes).expect("readers go on");
        store.defragment();
        read += u64::from(bytes == [1; 8]);
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut file = Meanwhile { file: Vec::new(), longest: 0, look: &mut look };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            for id in ids.iter().rev() {
                store.write_at(*id, 77, &[2; 8]).expect("there");
                changed.fetch_add(1, Ordering::Relaxed);
            }
        });
        store.dump_to(&mut file).expect("memory");
    });
    let Meanwhile { file, longest, .. } = file;
    assert!(longest <= MIB, "{longest} bytes at once");
    assert!(read > 1 && changed.into_inner() == 20, "{read}");
    let restored = ObjectStore::restore_from(config(256 * MIB), &file[..]).expect("whole");
    ids.iter().for_each(|id| assert!(restored.get_vec(*id).expect("there") == old, "{id}"));
}

/// Readers of short objects do not wait for the device.
#[test]
fn short_objects_can_be_read_while_a_piece_is_written() {
    let store = store(64 * MIB);
    let ids: Vec<ObjectId> = (0..100_000).map(|_| store.create(32).expect("room")).collect();
    let (ask, asked) = std::sync::mpsc::channel();
    let (say, said) = std::sync::mpsc::channel();
    let (store, ids) = (&store, &ids);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for () in asked {
                let read = ids.iter().filter(|id| store.get(**id, &mut [0; 32]).is_ok());
                say.send(read.count()).expect("the other thread waits");
            }
        });
        // The reader stops when its requests end.
        let mut look = move |written| {
            if written % MIB < 100 {
                ask.send(()).expect("the other thread reads");
                let all = said.recv_timeout(Duration::from_secs(20)).expect("it is not kept out");
                assert_eq!(all, ids.len());
            }
        };
        let mut file = Meanwhile { file: Vec::new(), longest: 0, look: &mut look };
        store.dump_to(&mut file).expect("memory");
        assert!(file.file.len() > 3 * MIB);
        drop(look);
    });
}

#[test]
fn a_dump_that_gets_no_name_leaves_nothing() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("taken");
    std::fs::create_dir_all(path.join("by a directory")).expect("made");
    let error = store(4 * MIB).dump(&path).expect_err("it cannot be replaced");
    assert!(error.to_string().contains("taken"), "{error}");
    assert_eq!(std::fs::read_dir(scratch.path()).expect("a directory").count(), 1);
}

#[test]
fn a_dump_needs_some_of_the_budget() {
    let ledger = Ledger::new(8 * MIB as u64);
    let store = ObjectStore::new(ObjectConfig { ledger: Some(ledger), ..config(64 * MIB) });
    let store = store.expect("memory");
    let id = store.create_with(b"still there").expect("room");
    let error = store.dump_to(Vec::new()).expect_err("12 MiB are not to be had");
    assert!(matches!(error, ObjectError::OutOfMemory { .. }), "{error}");
    assert_eq!(store.get_vec(id).expect("there"), b"still there");
    store.put(id, b"and  usable").expect("there");
}

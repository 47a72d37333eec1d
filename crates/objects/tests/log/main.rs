//! Logs: acknowledged changes survive every end of the process.

mod chain;
mod damage;
mod fork;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use terrace_objects::{
    Backing, Durability, LogConfig, ObjectConfig, ObjectError, ObjectId, ObjectStore,
};
use terrace_testkit::device::SmallFileSystem;
use terrace_testkit::{Rng, soak_rounds, with_seed};

const MIB: usize = 1 << 20;

fn config() -> ObjectConfig {
    ObjectConfig::new("logged", Backing::Dram { bytes: 64 * MIB })
}

fn log(dir: &Path, durability: Durability) -> LogConfig {
    LogConfig { durability, ..LogConfig::new(dir) }
}

fn open(dir: &Path) -> ObjectStore {
    open_with(dir, false)
}

fn open_with(dir: &Path, generations: bool) -> ObjectStore {
    let config = ObjectConfig { generations, ..config() };
    ObjectStore::open(config, log(dir, Durability::Written)).expect("sound").0
}

/// Expected contents of a store.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    objects: BTreeMap<ObjectId, Vec<u8>>,
    read_only: BTreeSet<ObjectId>,
    reserved: BTreeSet<ObjectId>,
}

impl Model {
    fn any(&self, rng: &mut Rng) -> Option<ObjectId> {
        let from = ObjectId::from_bits(rng.below(1 + self.objects.len() as u64 * 2));
        let next = self.objects.range(from..).next().or_else(|| self.objects.iter().next());
        next.map(|(id, _)| *id)
    }

    fn step(&mut self, store: &ObjectStore, rng: &mut Rng) {
        let mut bytes = vec![0; [32, 32, rng.index(200), rng.index(3000)][rng.index(4)]];
        rng.fill(&mut bytes);
        match rng.below(10) {
            0..3 => self.create(store, bytes, rng),
            3 => {
                let id = store.reserve().expect("ids");
                assert!(self.reserved.insert(id) && !self.objects.contains_key(&id), "{id}");
            }
            4 => {
                let Some(id) = self.reserved.pop_first() else { return };
                match rng.below(2) {
                    0 => store.release(id).expect("reserved"),
                    _ => {
                        store.create_reserved(id, &bytes).expect("reserved");
                        self.objects.insert(id, bytes);
                    }
                }
            }
            _ => self.change(store, bytes, rng),
        }
    }

    fn create(&mut self, store: &ObjectStore, bytes: Vec<u8>, rng: &mut Rng) {
        let made = match rng.below(6) {
            0 => {
                let some = [&bytes[..], &bytes[..bytes.len() / 2], &[]];
                let first = store.create_consecutive(&some).expect("room");
                let id = |n: u64| ObjectId::from_bits(first.to_bits() + n);
                (0..).map(id).zip(some.map(<[u8]>::to_vec)).collect()
            }
            1 => {
                let some = [&bytes[..], &bytes[..bytes.len() / 3]];
                let ids = store.create_many(&some).expect("room");
                ids.into_iter().zip(some.map(<[u8]>::to_vec)).collect()
            }
            2 => vec![(store.create(bytes.len()).expect("room"), vec![0; bytes.len()])],
            3 => {
                let id = ObjectId::new(7, rng.below(1 << 30));
                if self.objects.contains_key(&id) {
                    return;
                }
                store.create_reserved(id, &bytes).expect("of another node");
                vec![(id, bytes)]
            }
            _ => vec![(store.create_with(&bytes).expect("room"), bytes)],
        };
        for (id, bytes) in made {
            assert!(self.objects.insert(id, bytes).is_none(), "{id} was there");
            assert!(!self.reserved.contains(&id), "{id} was reserved");
        }
    }

    fn change(&mut self, store: &ObjectStore, bytes: Vec<u8>, rng: &mut Rng) {
        let Some(id) = self.any(rng) else { return };
        let object = self.objects.get_mut(&id).expect("chosen from these");
        if self.read_only.contains(&id) {
            assert!(matches!(store.remove(id), Err(ObjectError::ReadOnly(_))));
            store.set_read_only(id, false).expect("there");
            self.read_only.remove(&id);
            return;
        }
        match rng.below(7) {
            0 => {
                store.replace(id, &bytes).expect("room");
                *object = bytes;
            }
            1 => {
                let len = rng.index(400);
                store.resize(id, len).expect("room");
                object.resize(len, 0);
            }
            2 => {
                store.set_read_only(id, true).expect("there");
                self.read_only.insert(id);
            }
            3 => {
                assert!(store.remove_many(&[id]).iter().all(Result::is_ok));
                self.objects.remove(&id);
            }
            4 => {
                let at = rng.index(object.len() + 1);
                let len = rng.index(object.len() - at + 1).min(bytes.len());
                store.write_at(id, at, &bytes[..len]).expect("inside");
                object[at..at + len].copy_from_slice(&bytes[..len]);
            }
            _ => {
                rng.fill(object);
                match rng.below(2) {
                    0 => store.put(id, object).expect("as long"),
                    _ => assert!(store.put_many(&[(id, object)]).iter().all(Result::is_ok)),
                }
            }
        }
    }

    fn of(store: &ObjectStore) -> Self {
        let mut model = Self::default();
        for id in store.ids(ObjectId::from_bits(0), usize::MAX) {
            model.objects.insert(id, store.get_vec(id).expect("there"));
            if store.is_read_only(id).expect("there") {
                model.read_only.insert(id);
            }
        }
        model
    }

    fn check(&self, store: &ObjectStore) {
        store.check().expect("in order");
        let found = Self::of(store);
        assert_eq!((&found.objects, &found.read_only), (&self.objects, &self.read_only));
        assert_eq!(store.stats().reserved, self.reserved.len() as u64);
        let taken = ObjectId::from_bits(u64::MAX);
        for id in self.reserved.iter().chain(self.objects.keys().next()) {
            let is_reserved = self.reserved.contains(id);
            let free = matches!(store.release(*id), Err(ObjectError::NotReserved(_)));
            assert!(free != is_reserved && *id != taken, "{id}");
        }
    }
}

#[test]
fn everything_is_there_again() {
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        for _ in 0..soak_rounds(6) {
            let scratch = tempfile::tempdir().expect("a directory");
            let mut model = Model::default();
            let generations = rng.one_in(2);
            for _ in 0..6 {
                let store = open_with(scratch.path(), generations);
                for _ in 0..rng.index(800) {
                    model.step(&store, &mut rng);
                    if rng.below(300) == 0 {
                        store.checkpoint().expect("room");
                        assert_eq!(store.log_bytes(), 64);
                    }
                }
                let logged = store.log_bytes();
                drop(store);
                let reopened = open_with(scratch.path(), generations);
                // A store that is often opened again has its checkpoints, too.
                assert!(reopened.log_bytes() > logged, "{} {logged}", reopened.log_bytes());
                model.check(&reopened);
                // The check released the reserved ids.
                model.reserved.clear();
            }
        }
    });
}

fn files(dir: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let is_one =
        |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().contains(kind);
    let mut found: Vec<PathBuf> = paths.filter(is_one).collect();
    found.sort();
    found
}

#[test]
fn a_checkpoint_that_failed_is_still_due() {
    let scratch = tempfile::tempdir().expect("a directory");
    let ledger = Some(terrace_ledger::Ledger::new(8 * MIB as u64));
    let log = log(scratch.path(), Durability::Written);
    let (store, _) = ObjectStore::open(ObjectConfig { ledger, ..config() }, log).expect("empty");
    store.create_with(&[1; 5000]).expect("room");
    let before = store.log_bytes();
    store.checkpoint().expect_err("12 MiB are not to be had");
    assert!(before > 5000 && store.log_bytes() > before, "{}", store.log_bytes());
}

/// Changes made in a nearly full store are redone in a store with as little room.
#[test]
fn full_stores_open_again() {
    let small = || ObjectConfig::new("small", Backing::Dram { bytes: 4 * MIB });
    let scratch = tempfile::tempdir().expect("a directory");
    let open = || {
        let log = log(scratch.path(), Durability::Written);
        ObjectStore::open(small(), log).unwrap_or_else(|error| panic!("{error}")).0
    };
    let store = open();
    let long = store.create(MIB + MIB / 2).expect("room");
    let other = store.create(MIB).expect("room");
    let mut few = Vec::new();
    while let Ok(id) = store.create_with(&[3; 20_000]) {
        few.push(id);
    }
    assert!(few.len() > 50, "{}", few.len());
    // There is no room for a second object.
    for round in 0..3 {
        store.put(long, &vec![round; MIB + MIB / 2]).expect("as long");
        store.put(other, &vec![round + 1; MIB]).expect("as long");
        store.replace(few[5], &[round; 20_000]).expect("as long");
    }
    store.remove(other).expect("there");
    few.drain(10..20).for_each(|id| store.remove(id).expect("there"));
    store.resize(long, MIB).expect("shorter");
    store.resize(long, MIB + 5).expect("there is room");
    let model = Model::of(&store);
    drop(store);
    for _ in 0..2 {
        let store = open();
        assert!(Model::of(&store) == model);
        store.check().expect("in order");
        store.checkpoint().expect("room on the device");
    }
}

#[test]
fn a_directory_has_one_owner() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let error = ObjectStore::open(config(), LogConfig::new(scratch.path())).expect_err("in use");
    assert!(error.to_string().contains("locked"), "{error}");
    drop(store);
    drop(open(scratch.path()));
    let none = ObjectStore::new(config()).expect("memory");
    assert!(matches!(none.checkpoint(), Err(ObjectError::Config(_))));
    none.sync().expect("nothing to do");
}

/// The log's device is full: changes are refused, reads continue, and a checkpoint with room
/// repairs the log.
#[test]
fn a_full_device_is_one_error_until_a_checkpoint() {
    let small = match SmallFileSystem::mount(4 * MIB as u64) {
        Ok(small) => small,
        Err(reason) => return terrace_testkit::needs::skip(&reason),
    };
    let store = open(small.path());
    let filler = small.path().join("filler");
    std::fs::write(&filler, vec![1; 3 * MIB]).expect("room");
    let mut kept = BTreeMap::new();
    let error = loop {
        let bytes = vec![kept.len().to_le_bytes()[0]; 10_000];
        match store.create_with(&bytes) {
            Ok(id) => kept.insert(id, bytes),
            Err(error) => break error,
        };
        assert!(kept.len() < 1000, "the device has no end");
    };
    assert!(matches!(error, ObjectError::Log(_)), "{error}");
    let (id, bytes) = kept.iter().next().map(|(id, bytes)| (*id, bytes.clone())).expect("some");
    for refused in [
        store.put(id, &bytes),
        store.remove(id),
        store.resize(id, 5),
        store.create(5).map(drop_id),
        store.reserve().map(drop_id),
        store.create_many(&[b"x"]).map(|_| ()),
        store.create_consecutive(&[b"x"]).map(drop_id),
        store.set_read_only(id, true),
        store.sync(),
    ] {
        assert!(matches!(refused, Err(ObjectError::Log(_))), "{refused:?}");
    }
    assert_eq!(Model::of(&store).objects, kept, "reads go on, and what was refused is not there");
    store.check().expect("in order");
    let error = store.checkpoint().expect_err("there is no room for it either");
    assert!(matches!(error, ObjectError::File { .. }), "{error}");
    assert!(matches!(store.put(id, &bytes), Err(ObjectError::Log(_))), "still");
    std::fs::remove_file(&filler).expect("there");
    store.checkpoint().expect("there is room now");
    let id = store.create_with(b"after").expect("room");
    kept.insert(id, b"after".to_vec());
    drop(store);
    let store = open(small.path());
    assert_eq!(Model::of(&store).objects, kept);
}

fn drop_id(_: ObjectId) {}

const CHILD: &str = "TERRACE_OBJECTS_LOG_CHILD";
const OBJECTS: usize = 64;

/// Puts until it is killed, and prints each acknowledged change.
fn child(dir: &Path, durability: Durability) {
    let (store, _) = ObjectStore::open(config(), log(dir, durability)).expect("sound");
    let ids = store.ids(ObjectId::from_bits(0), usize::MAX);
    // The process may have been killed before all objects were created.
    let missing = vec![&[0; 24][..]; OBJECTS - ids.len()];
    let ids = [ids, store.create_many(&missing).expect("room")].concat();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (store, ids) = (&store, &ids);
            scope.spawn(move || {
                let own: Vec<ObjectId> = ids.iter().skip(thread).step_by(4).copied().collect();
                for n in 1_usize.. {
                    let id = own[n % own.len()];
                    let before = store.get_vec(id).expect("there");
                    let next = u64::from_le_bytes(before[..8].try_into().expect("as long")) + 1;
                    let bytes = next.to_le_bytes().repeat(3 + n % 2);
                    store.replace(id, &bytes).expect("room");
                    let line = format!("{} {next}\n", id.to_bits());
                    std::io::stdout().write_all(line.as_bytes()).expect("the parent listens");
                }
            });
        }
        scope.spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(20));
                store.checkpoint().expect("room");
            }
        });
    });
}

/// Not a test by itself: the process that is killed.
#[test]
fn the_child_that_is_killed() {
    if let Ok(dir) = std::env::var(CHILD) {
        let durability = match dir.ends_with("synced") {
            true => Durability::Synced,
            false => Durability::Written,
        };
        child(Path::new(&dir), durability);
    }
}

#[test]
fn acknowledged_changes_survive_a_killed_process() {
    let mut rng = Rng::new(std::process::id().into());
    for durability in ["written", "synced"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join(durability);
        let mut acknowledged: BTreeMap<ObjectId, u64> = BTreeMap::new();
        for _ in 0..soak_rounds(6) {
            let program = std::env::current_exe().expect("this one");
            let mut process = Command::new(program)
                .args(["--exact", "the_child_that_is_killed", "--nocapture"])
                .env(CHILD, &dir)
                .stdout(Stdio::piped())
                .spawn()
                .expect("started");
            let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
            std::thread::scope(|scope| {
                let wait = Duration::from_millis(20 + rng.below(200));
                let mut process = Some(&mut process);
                for line in lines.map_while(Result::ok) {
                    let Some((id, n)) = line.split_once(' ') else { continue };
                    let (Ok(id), Ok(n)) = (id.parse().map(ObjectId::from_bits), n.parse()) else {
                        continue;
                    };
                    acknowledged.insert(id, n);
                    if let Some(process) = process.take() {
                        scope.spawn(move || {
                            std::thread::sleep(wait);
                            process.kill().expect("running");
                        });
                    }
                }
            });
            process.wait().expect("ended");
            let store = open(&dir);
            store.check().expect("in order");
            for (id, n) in &acknowledged {
                let bytes = store.get_vec(*id).expect("acknowledged");
                let found = u64::from_le_bytes(bytes[..8].try_into().expect("as long"));
                assert!(found == *n || found == n + 1, "{id}: {found}, {n} was acknowledged");
                assert!(bytes.chunks(8).all(|word| word == found.to_le_bytes()), "{bytes:?}");
            }
        }
        assert!(acknowledged.values().sum::<u64>() > 100, "{acknowledged:?}");
    }
}

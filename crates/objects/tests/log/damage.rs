//! Damaged and stale files, and writes that were not on the device when the machine crashed.

use std::collections::BTreeMap;
use std::path::Path;

use terrace_objects::{Durability, LogConfig, ObjectConfig, ObjectError, ObjectId, ObjectStore};

use super::{MIB, Model, config, drop_id, files, log, open};

#[test]
fn a_log_that_ends_anywhere_is_read_up_to_there() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let mut states = vec![(64, BTreeMap::new())];
    let mut objects = BTreeMap::new();
    for n in 0..10_u8 {
        let bytes = vec![n; 10 + usize::from(n)];
        objects.insert(store.create_with(&bytes).expect("room"), bytes);
        states.push((store.log_bytes(), objects.clone()));
    }
    store.sync().expect("a device");
    // A batch without changes records the sync.
    states.push((store.log_bytes(), objects));
    drop(store);
    let path = files(scratch.path(), "log-").pop().expect("one");
    let whole = std::fs::read(&path).expect("there");
    assert_eq!(whole.len() as u64, states.last().expect("some").0);
    for end in 0..whole.len() {
        let other = tempfile::tempdir().expect("a directory");
        let cut = other.path().join(path.file_name().expect("a name"));
        std::fs::write(&cut, &whole[..end]).expect("written");
        let (store, found) = ObjectStore::open(config(), LogConfig::new(other.path()))
            .unwrap_or_else(|error| panic!("{end}: {error}"));
        let at = states.iter().rev().find(|(at, _)| *at <= end as u64);
        let (at, expected) = at.cloned().unwrap_or((0, BTreeMap::new()));
        assert_eq!(Model::of(&store).objects, expected, "{end}");
        assert_eq!(found.torn_bytes, end as u64 - at, "{end}");
        // The next change is found behind it.
        let id = store.create_with(b"next").expect("room");
        drop(store);
        let store = open(other.path());
        assert_eq!(store.get_vec(id).expect("there"), b"next", "{end}");
        assert_eq!(Model::of(&store).objects.len(), expected.len() + 1);
    }
}

/// Returns a log as found after a restart of the machine: with another boot id in its head.
fn of_another_boot(log: &[u8]) -> Vec<u8> {
    let mut log = log.to_vec();
    log[32] ^= 1;
    let sum = crc32c::crc32c(&log[..60]);
    log[60..64].copy_from_slice(&sum.to_le_bytes());
    log
}

/// A crash of the machine may leave later writes without earlier ones. A process that is killed
/// leaves its last batch incomplete, and no hole before others.
#[test]
fn only_what_was_synced_can_be_damaged() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let mut batches = Vec::new();
    let end = || usize::try_from(store.log_bytes()).expect("small");
    for n in 0..20_u8 {
        let begin = end();
        store.create_with(&[n; 40]).expect("room");
        batches.push(begin..end());
        if n == 9 {
            store.sync().expect("a device");
        }
    }
    let path = files(scratch.path(), "log-").pop().expect("one");
    let stopped = std::fs::read(&path).expect("there");
    drop(store);
    let closed = std::fs::read(&path).expect("there");
    for (batch, n) in batches.iter().zip(0..) {
        let other = tempfile::tempdir().expect("a directory");
        let lost = other.path().join(path.file_name().expect("a name"));
        let opened = |whole: &[u8]| {
            let mut bytes = whole.to_vec();
            bytes[batch.end - 8..batch.end].fill(0xff);
            std::fs::write(&lost, bytes).expect("written");
            ObjectStore::open(config(), LogConfig::new(other.path()))
        };
        let is_damaged = |whole: &[u8]| {
            let damaged = matches!(opened(whole), Err(ObjectError::Corrupt { .. }));
            let len = std::fs::metadata(&lost).expect("there").len();
            assert_eq!(len, whole.len() as u64, "nothing is cut");
            damaged
        };
        assert!(is_damaged(&closed) && is_damaged(&of_another_boot(&closed)), "{n}");
        assert!(is_damaged(&stopped) == (n < 19), "{n}");
        if n < 10 {
            assert!(is_damaged(&of_another_boot(&stopped)), "{n}");
            continue;
        }
        for path in files(other.path(), "") {
            std::fs::remove_file(path).expect("there");
        }
        let (store, found) = opened(&of_another_boot(&stopped)).expect("the last ones are gone");
        assert_eq!((Model::of(&store).objects.len(), found.changes), (n, n as u64));
        assert_eq!(found.torn_bytes, (stopped.len() - batch.start) as u64);
        // Whole batches behind a hole are reported, and kept.
        let kept = files(other.path(), "damaged-log-");
        assert_eq!((kept.len(), found.damage.len()), (usize::from(n < 19), usize::from(n < 19)));
        for kept in kept {
            assert_eq!(std::fs::metadata(kept).expect("kept").len(), stopped.len() as u64);
        }
        drop(store);
        let (store, found) =
            ObjectStore::open(config(), LogConfig::new(other.path())).expect("sound");
        assert_eq!((Model::of(&store).objects.len(), found.torn_bytes), (n, 0));
    }
}

#[test]
fn damage_is_one_error_and_the_rest_can_be_opened() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let ids: Vec<ObjectId> =
        (0..20_u8).map(|n| store.create_with(&[n; 40]).expect("room")).collect();
    let ends = store.log_bytes();
    drop(store);
    let path = files(scratch.path(), "log-").pop().expect("one");
    let mut bytes = std::fs::read(&path).expect("there");
    bytes[usize::try_from(ends).expect("small") / 2] ^= 4;
    std::fs::write(&path, &bytes).expect("written");
    for _ in 0..2 {
        let error =
            ObjectStore::open(config(), LogConfig::new(scratch.path())).expect_err("damaged");
        let text = error.to_string();
        assert!(matches!(error, ObjectError::Corrupt { .. }) && text.contains("log-"), "{text}");
    }
    let accepts = LogConfig { accepts_damage: true, ..LogConfig::new(scratch.path()) };
    let (store, found) = ObjectStore::open(config(), accepts).expect("opened");
    assert_eq!(found.damage.len(), 1);
    let left = Model::of(&store).objects;
    assert!((8..12).contains(&left.len()), "{left:?}");
    ids.iter().zip(0..).take(left.len()).for_each(|(id, n)| assert_eq!(left[id], [n; 40]));
    drop(store);
    assert_eq!(files(scratch.path(), "damaged-log-").len(), 1);
    let (store, found) =
        ObjectStore::open(config(), LogConfig::new(scratch.path())).expect("sound");
    assert_eq!((Model::of(&store).objects, found.dump), (left, true));
}

#[test]
fn damaged_dumps_and_missing_logs_are_errors() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let id = store.create_with(b"dumped").expect("room");
    store.checkpoint().expect("room");
    store.put(id, b"logged").expect("there");
    drop(store);
    drop(open(scratch.path()));
    let logs = files(scratch.path(), "log-");
    let dump = files(scratch.path(), "dump-").pop().expect("one");
    // The log that the dump names is missing, and a later one exists.
    let wholes: Vec<Vec<u8>> = logs.iter().map(|log| std::fs::read(log).expect("there")).collect();
    for log in &logs {
        std::fs::remove_file(log).expect("there");
        let error = ObjectStore::open(config(), LogConfig::new(scratch.path())).expect_err("a gap");
        assert!(error.to_string().contains("missing"), "{error}");
    }
    for (log, whole) in logs.iter().zip(wholes) {
        std::fs::write(log, whole).expect("written");
    }
    assert_eq!(open(scratch.path()).get_vec(id).expect("there"), b"logged");
    std::fs::write(&dump, b"nothing").expect("written");
    let error = ObjectStore::open(config(), LogConfig::new(scratch.path())).expect_err("damaged");
    assert!(error.to_string().contains("dump-"), "{error}");
}

fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    for path in files(dir, "") {
        let name = path.file_name().expect("a name").to_owned();
        std::fs::copy(&path, copy.path().join(name)).expect("room");
    }
    copy
}

fn flip(path: &Path, before_end: usize) {
    let mut bytes = std::fs::read(path).expect("there");
    let at = bytes.len() - before_end;
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("written");
}

/// Damaged files are set aside once a dump has replaced all that was read, and not before.
#[test]
fn damage_that_is_accepted_in_vain_costs_nothing() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let create = |_| store.create_with(b"some bytes").expect("room");
    (0..1000).map(create).for_each(drop_id);
    store.checkpoint().expect("room");
    (0..1000).map(create).for_each(drop_id);
    drop(store);
    let accept = |dir: &Path, budget: usize| {
        let ledger = Some(terrace_ledger::Ledger::new(budget as u64));
        let log = LogConfig { accepts_damage: true, ..log(dir, Durability::Written) };
        ObjectStore::open(ObjectConfig { ledger, ..config() }, log)
    };
    let last = |kind| files(scratch.path(), kind).pop().expect("one");
    for (path, before_end) in [(last("log-"), 200), (last("dump-"), 20)] {
        flip(&path, before_end);
        let (at_once, later) = (copy_of(scratch.path()), copy_of(scratch.path()));
        let at_once = accept(at_once.path(), 64 * MIB).expect("what is whole").0;
        // There is no room for the dump of the remaining contents.
        for _ in 0..2 {
            accept(later.path(), 6 * MIB).expect_err("12 MiB are not to be had");
        }
        let later = accept(later.path(), 64 * MIB).expect("what is whole").0;
        assert!(at_once.stats().objects > 900, "{:?}", at_once.stats());
        assert_eq!(Model::of(&later), Model::of(&at_once));
    }
}

/// Recovery rejects a file under the name of another, and stale blocks of another file.
#[test]
fn each_file_knows_its_own() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let id = store.create_with(&[0; 32]).expect("room");
    (1..=100).for_each(|n| store.put(id, &[n; 32]).expect("there"));
    let first = files(scratch.path(), "log-").pop().expect("one");
    let old = std::fs::read(&first).expect("there");
    store.checkpoint().expect("room");
    (101..=150).for_each(|n| store.put(id, &[n; 32]).expect("there"));
    let stopped = copy_of(scratch.path());
    drop(store);
    // Stale batches of the same lengths stand where the next ones would.
    let path = files(stopped.path(), "log-").pop().expect("one");
    let mut new = std::fs::read(&path).expect("there");
    let at = new.len();
    assert!(old.len() > at);
    new.extend_from_slice(&old[at..]);
    std::fs::write(&path, new).expect("written");
    let (store, found) =
        ObjectStore::open(config(), LogConfig::new(stopped.path())).expect("sound");
    assert_eq!(store.get_vec(id).expect("there"), [150; 32]);
    assert_eq!(found.torn_bytes, (old.len() - at) as u64);

    let path = files(scratch.path(), "log-").pop().expect("one");
    std::fs::rename(&path, path.with_file_name("log-00000000000000ff")).expect("renamed");
    std::fs::write(&path, old).expect("written");
    let error = ObjectStore::open(config(), LogConfig::new(scratch.path())).expect_err("another");
    assert!(error.to_string().contains("number 1"), "{error}");
}

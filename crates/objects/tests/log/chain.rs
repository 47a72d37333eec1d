//! Logs that more than one process wrote to, or that another version of the program wrote.

use std::path::{Path, PathBuf};

use terrace_objects::{Durability, LogConfig, ObjectError, ObjectId, ObjectStore};

use super::{Model, config, files, log, open};

fn opened(dir: &Path) -> Result<ObjectStore, ObjectError> {
    ObjectStore::open(config(), LogConfig::new(dir)).map(|(store, _)| store)
}

fn last_log(dir: &Path) -> PathBuf {
    files(dir, "log-").pop().expect("one")
}

/// The batches of two processes that continue one file from the same offset are not taken for one
/// log, though all of them are whole.
#[test]
fn batches_of_two_writers_are_damage() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    store.create_with(b"before").expect("room");
    let (path, fork) = (last_log(scratch.path()), store.log_bytes());
    let begin = std::fs::read(&path).expect("there");
    (0..3).for_each(|_| assert!(store.create_with(b"first writer").is_ok()));
    let first = std::fs::read(&path).expect("there");
    drop(store);
    // The other process continues from the same offset, with the same salt.
    let other = tempfile::tempdir().expect("a directory");
    let at = usize::try_from(fork).expect("small");
    let batch = (first.len() - at) / 3;
    let mut mixed = begin;
    mixed.extend_from_slice(&first[at..at + batch]);
    // Its second batch has the same length but follows another first one: that of the first writer
    // with another number before it.
    let mut second = first[at + 2 * batch..].to_vec();
    let (salt, offset) = (first[24..32].to_vec(), (at + batch) as u64);
    let sum = |bytes: &[u8]| {
        let placed = crc32c::crc32c_append(crc32c::crc32c(&salt), &offset.to_le_bytes());
        crc32c::crc32c_append(placed, bytes).to_le_bytes()
    };
    let changes = sum(&second[44..]);
    second[12..16].copy_from_slice(&changes);
    let head = sum(&second[12..44]);
    second[8..12].copy_from_slice(&head);
    mixed.extend_from_slice(&second);
    let path = other.path().join(path.file_name().expect("a name"));
    std::fs::write(&path, &mixed).expect("written");
    for _ in 0..2 {
        let error = opened(other.path()).expect_err("two writers");
        assert!(matches!(error, ObjectError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("one writer"), "{error}");
        assert_eq!(std::fs::read(&path).expect("there"), mixed, "nothing is cut");
    }
    let accepts = LogConfig { accepts_damage: true, ..LogConfig::new(other.path()) };
    let (store, found) = ObjectStore::open(config(), accepts).expect("what is of one writer");
    assert_eq!((Model::of(&store).objects.len(), found.damage.len()), (2, 1));
    let kept = files(other.path(), "damaged-log-").pop().expect("it is kept");
    assert_eq!(std::fs::read(kept).expect("there"), mixed);
}

/// A log that was truncated between batches is detected by the one after it.
#[test]
fn a_log_that_lost_its_end_is_damage() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let mut ends = Vec::new();
    for n in 0..3 {
        ends.push(store.log_bytes());
        store.create_with(&[n; 10]).expect("room");
    }
    let path = last_log(scratch.path());
    drop(store);
    open(scratch.path()).create_with(b"later").expect("room");
    for end in ends {
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|log| log.set_len(end))
            .expect("cut");
        let error = opened(scratch.path()).expect_err("changes are missing");
        assert!(error.to_string().contains("missing"), "{error}");
    }
}

/// Recovery leaves torn writes where they are, also when it runs again.
#[test]
fn no_start_shortens_a_log() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let id = store.create_with(b"whole").expect("room");
    store.sync().expect("a device");
    drop(store);
    let path = last_log(scratch.path());
    let torn = [std::fs::read(&path).expect("there"), vec![7; 100]].concat();
    std::fs::write(&path, &torn).expect("written");
    for round in 0..4 {
        let (store, found) = ObjectStore::open(config(), log(scratch.path(), Durability::Written))
            .unwrap_or_else(|error| panic!("{round}: {error}"));
        // The log begun by the first recovery records where this one ended.
        assert_eq!(found.torn_bytes, if round < 1 { 100 } else { 0 }, "{round}");
        assert_eq!(store.get_vec(id).expect("there"), b"whole");
        assert_eq!(Model::of(&store).objects.len(), round.max(1), "{round}");
        if round > 0 {
            store.create_with(b"next").expect("room");
        }
        drop(store);
        assert_eq!(std::fs::read(&path).expect("there"), torn, "{round}");
    }
    let store = open(scratch.path());
    store.checkpoint().expect("room");
    assert!(!path.exists());
    assert_eq!(store.ids(ObjectId::from_bits(0), 10).len(), 4);
}

fn set_version(path: &Path, version: u32) {
    let mut bytes = std::fs::read(path).expect("there");
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(path, bytes).expect("written");
}

/// Dumps of the version before are read, and its logs if a checkpoint has emptied them.
#[test]
fn other_versions_are_refused_with_what_to_do() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = open(scratch.path());
    let id = store.create_with(b"dumped").expect("room");
    store.checkpoint().expect("room");
    drop(store);
    let (dump, log) =
        (files(scratch.path(), "dump-").pop().expect("one"), last_log(scratch.path()));
    set_version(&dump, 2);
    set_version(&log, 2);
    let store = open(scratch.path());
    assert_eq!(store.get_vec(id).expect("there"), b"dumped");
    store.create_with(b"of this version").expect("room");
    drop(store);
    assert_eq!(Model::of(&open(scratch.path())).objects.len(), 2);
    let log = files(scratch.path(), "log-").remove(1);
    for (version, advice) in [(2, "make a checkpoint"), (4, "a later one")] {
        let before = std::fs::read(&log).expect("there");
        set_version(&log, version);
        let accepts = LogConfig { accepts_damage: true, ..LogConfig::new(scratch.path()) };
        let error = ObjectStore::open(config(), accepts).expect_err("another version");
        let text = error.to_string();
        assert!(matches!(error, ObjectError::Version { has, .. } if has == version), "{text}");
        assert!(text.contains(advice) && text.contains("log-"), "{text}");
        std::fs::write(&log, before).expect("written");
    }
    assert_eq!(Model::of(&open(scratch.path())).objects.len(), 2);
}

//! Syncs of a log, and failures of its device.

use std::path::PathBuf;

use super::*;
use crate::durable::blocks::{HEAD_BYTES, Head, VERSION};
use crate::memory_files::{Asked, MemoryFiles};

fn path(sequence: u64) -> PathBuf {
    format!("log-{sequence}").into()
}

fn file(files: &MemoryFiles, sequence: u64) -> LogFile {
    let (magic, version, node, salt, boot) = (MAGIC, VERSION, 0, 7, 0);
    let (generations, after) = (false, None);
    let head = Head { magic, version, node, generations, sequence, salt, boot, after };
    LogFile::create(files, path(sequence), head).expect("a new one")
}

fn log(durability: Durability) -> (Log, MemoryFiles) {
    let files = MemoryFiles::default();
    let log = Log::new(file(&files, 1).follow(Link::default()), durability);
    (log, files)
}

/// Returns the operations on the files since they were made, in words.
fn asked(files: &MemoryFiles) -> Vec<String> {
    let word = |asked: &Asked| match asked {
        Asked::Write { file, .. } => format!("write {file}"),
        Asked::FailedSync(_) => "failed sync".to_owned(),
        Asked::Sync { file, .. } => format!("sync {file}"),
        other => format!("{other:?}"),
    };
    files.asked().iter().skip(4).map(word).collect()
}

/// Logs a change and waits for it as a store does.
fn change(log: &Log) -> Result<(), ObjectError> {
    let id = crate::id::ObjectId::from_bits(1);
    log.commit(log.append(Change::Put { id, bytes: &[7; 8] }))
}

#[test]
fn whoever_waits_hears_of_a_sync_that_failed() {
    let (log, files) = log(Durability::Deferred);
    files.fail_sync(1);
    files.in_each_sync(|| std::thread::sleep(std::time::Duration::from_millis(20)));
    change(&log).expect("changed");
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| assert!(log.sync().is_err()))));
    });
    assert_eq!(asked(&files), ["write 0", "failed sync"]);
}

#[test]
fn a_log_is_not_synced_before_the_one_before_it() {
    let (log, files) = log(Durability::Written);
    change(&log).expect("it is written");
    let old = log.file().continue_in(file(&files, 2));
    change(&log).expect("it is written");
    let before = asked(&files).len();
    log.sync().expect("a device");
    assert_eq!(asked(&files)[before..], ["sync 0", "sync 1", "write 1"]);
    assert!(old.to_sync().is_ok_and(|(device, len)| device.sync_to(len).is_ok()));
    assert_eq!(asked(&files).len(), before + 3, "it is on the device");
}

#[test]
fn all_of_a_log_is_synced_when_another_begins() {
    let (log, files) = log(Durability::Written);
    change(&log).expect("it is written");
    log.turn_over(file(&files, 2));
    log.is_sound().expect("all went well");
    assert!(asked(&files).contains(&"sync 0".to_owned()), "{:?}", asked(&files));
    assert!(log.len() > to_u64(2 * HEAD_BYTES), "no dump stands for the other");
    log.forget_earlier();
    assert_eq!(log.len(), to_u64(HEAD_BYTES));
}

#[test]
fn a_sync_that_failed_is_not_asked_for_again() {
    for durability in [Durability::Written, Durability::Deferred] {
        let (log, files) = log(durability);
        files.fail_sync(1);
        change(&log).expect("it is written, or deferred");
        assert!(log.sync().is_err());
        assert!(log.sync().is_err(), "what the device has is unknown");
        assert!(log.is_sound().is_err());
        assert_eq!(asked(&files), ["write 0", "failed sync"]);
    }
}

#[test]
fn changes_of_a_batch_that_failed_are_not_acknowledged() {
    let (log, files) = log(Durability::Synced);
    change(&log).expect("the first sync");
    files.fail_sync(1);
    assert!(change(&log).is_err() && change(&log).is_err());
    log.turn_over(file(&files, 2));
    assert!(log.is_sound().is_err(), "a checkpoint is missing");
    log.mend();
    change(&log).expect("everything is elsewhere");
}

/// A log that failed while the next one began is not continued in that one.
#[test]
fn a_log_whose_end_is_not_synced_fails() {
    let (log, files) = log(Durability::Written);
    let next = file(&files, 2);
    change(&log).expect("it is written");
    // The first sync is the one before the files are swapped.
    files.fail_sync(1);
    log.turn_over(next);
    assert!(log.is_sound().is_err() && change(&log).is_err() && log.sync().is_err());
}

#[test]
fn another_writer_is_an_error() {
    for intrude in [|log: &mut Vec<u8>| log.push(0), |log: &mut Vec<u8>| log.truncate(70)] {
        let (log, files) = log(Durability::Written);
        change(&log).expect("it is written");
        log.sync().expect("a device");
        change(&log).expect("it is written");
        files.intrude(&path(1), intrude);
        let error = log.sync().expect_err("another writer");
        assert!(error.to_string().contains("another writes to it"), "{error}");
    }
}

//! Exclusive ownership of a file: a second region over the same bytes is refused and told the
//! owner.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{MIB, Memory, a_method, config, file_of};
use terrace_region::{Contents, Method, Region, RegionConfig, RegionError, Source};
use terrace_store::{EngineChoice, FileBlocks, Store};
use terrace_sys::fault_injection;
use terrace_sys::file::DirectFile;
use terrace_testkit::child;

const LEN: u64 = 4 * MIB;

fn source(path: &Path, offset: u64, len: u64) -> Source {
    let file = DirectFile::open(path).expect("opened");
    let blocks = FileBlocks::open(file, 1 << 40, EngineChoice::Auto).expect("blocks");
    Source { blocks: Arc::new(blocks), offset, len, contents: Contents::Stored }
}

fn named(method: Method) -> RegionConfig {
    config(method, MIB)
}

fn open(path: &Path, offset: u64, len: u64, method: Method) -> Result<Region, RegionError> {
    Region::new(named(method), source(path, offset, len))
}

fn refusal(opened: Result<Region, RegionError>) -> String {
    let error = opened.expect_err("claimed");
    assert!(matches!(error, RegionError::InUse { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_file_is_one_region_s_and_its_parts_are_several_s() {
    let Some(method) = a_method() else { return };
    let path = file_of(LEN);
    let whole = open(path.path(), 0, LEN, method).expect("free");
    let pin = whole.pin(0, 1).expect("pinned");
    for (offset, len) in [(0, LEN), (MIB, 4096), (LEN - 4096, 1)] {
        let error = refusal(open(path.path(), offset, len, method));
        assert!(error.contains("this process has locked it") && error.contains("test"), "{error}");
    }
    let error = Store::reopen_file(path.path(), Some(LEN)).expect_err("a region has it");
    assert!(error.to_string().contains("this process has locked it"), "{error}");
    drop(whole);
    let first = open(path.path(), 0, MIB + 1, method).expect("pins do not hold it");
    refusal(open(path.path(), MIB + 4096 - 4096, 4096, method));
    let second = open(path.path(), MIB + 4096, MIB, method).expect("it has other pages");
    Memory::of(&first).write(0, 1);
    Memory::of(&second).write(0, 2);
    drop((first, second, pin));
    let bytes = std::fs::read(path.path()).expect("the file");
    assert_eq!((bytes[0], bytes[(1 << 20) + 4096]), (1, 2));
}

#[test]
fn one_open_file_is_one_region_s_too() {
    let Some(method) = a_method() else { return };
    let path = file_of(LEN);
    let source = source(path.path(), 0, LEN);
    let _region = Region::new(named(method), source.clone()).expect("free");
    let error = refusal(Region::new(named(method), source));
    assert!(error.contains("this process has it"), "{error}");
}

#[test]
fn another_process_is_told_who_has_it() {
    const TEST: &str = "another_process_is_told_who_has_it";
    let Some(method) = a_method() else { return };
    if let Some(part) = child::part() {
        let (parent, path) = part.split_once(' ').expect("a process and a path");
        let error = refusal(open(Path::new(path), 0, LEN, method));
        assert!(error.contains(&format!("process {parent} has locked it")), "{error}");
        return;
    }
    let path = file_of(LEN);
    let region = open(path.path(), 0, LEN, method).expect("free");
    let part = format!("{} {}", std::process::id(), path.path().display());
    let status = child::run(TEST, &part);
    assert!(status.success(), "{status}");
    drop(region);
}

/// A forked child shares the open file. Dropping its copy does not end the parent's region, and it
/// does not keep the file after the parent has released it.
#[test]
fn a_forked_child_neither_ends_a_region_nor_keeps_its_file() {
    let Some(method) = a_method() else { return };
    let path = file_of(LEN);
    let region = open(path.path(), 0, LEN, method).expect("free");
    // SAFETY: dropping a child's copy takes no lock and frees nothing; the parent's region is
    // untouched.
    let status = unsafe {
        fault_injection::in_child(|| {
            drop(std::ptr::read(&raw const region));
            0
        })
    };
    assert!(status.expect("a child").success());
    refusal(open(path.path(), 0, LEN, method));
    Memory::of(&region).write(LEN - 1, 9);
    let lives = thread::spawn(|| {
        // SAFETY: the child only sleeps.
        unsafe {
            fault_injection::in_child(|| {
                thread::sleep(Duration::from_millis(500));
                0
            })
        }
    });
    thread::sleep(Duration::from_millis(100));
    drop(region);
    let again = open(path.path(), 0, LEN, method).expect("given back");
    assert!(!lives.is_finished(), "the child that shares the file still lives");
    assert_eq!(Memory::of(&again).read(LEN - 1), 9);
    assert!(lives.join().expect("no panic").expect("a child").success());
}

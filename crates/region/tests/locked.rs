//! Regions of a process that locks its memory (`mlockall`): the kernel fills new mappings with
//! zeros, which a region must not take for the bytes of a file.

mod common;

use common::{MIB, Memory, config, file_of, methods, over_file, stamp};
use terrace_region::{Method, Region};
use terrace_sys::fault_injection;
use terrace_sys::process::resident_bytes;
use terrace_testkit::{child, needs};

const LEN: u64 = 32 * MIB;
const CAP: u64 = 4 * MIB;
/// Memory of threads and staging that is filled at once.
const SLACK: u64 = 16 * MIB;

/// Locks all memory of this child process; false if its limit forbids that.
fn locks() -> bool {
    let locked = fault_injection::lock_memory();
    if let Err(error) = &locked {
        needs::skip(&format!("memory cannot be locked: {error}"));
    }
    locked.is_ok()
}

/// Checks that every page has its stamp, takes a write, and has it in the file after a flush.
fn serves(region: &Region, path: &std::path::Path) {
    let memory = Memory::of(region);
    let pages = || (0..LEN).step_by(4096);
    assert_eq!(pages().filter(|at| memory.read(*at) != stamp(*at)).count(), 0, "zeros were read");
    pages().for_each(|at| memory.write(at, !stamp(at)));
    region.flush(0, LEN).expect("flushed");
    let bytes = std::fs::read(path).expect("the file");
    let wrong = pages().filter(|at| bytes[usize::try_from(*at).expect("small")] != !stamp(*at));
    assert_eq!(wrong.count(), 0, "writes that did not come to the file");
}

fn in_child(test: &str, part: impl Fn(Method)) {
    match child::part().as_deref() {
        Some("move") => part(Method::Move),
        Some("copy") => part(Method::Copy),
        Some(_) => unreachable!("a part of another test"),
        None => {
            for method in methods() {
                let status = child::run(test, &method.to_string());
                assert!(status.success(), "{method}: {status}");
            }
        }
    }
}

#[test]
fn a_region_of_a_process_that_locks_its_memory_has_the_bytes_of_its_file() {
    in_child("a_region_of_a_process_that_locks_its_memory_has_the_bytes_of_its_file", |method| {
        let path = file_of(LEN);
        if !locks() {
            return;
        }
        let before = resident_bytes().expect("told");
        let region = over_file(path.path(), 0, LEN, config(method, CAP));
        let filled = resident_bytes().expect("told").saturating_sub(before);
        assert!(filled < CAP + SLACK, "{filled} bytes came to memory at once");
        serves(&region, path.path());
        // The kernel may hold a page for a moment, and then its block is copied.
        let copied = region.stats().copied;
        assert!(copied <= 8, "{copied} blocks were copied although the process locks its memory");
    });
}

/// Locking an existing region reads its blocks once, as with a mapped file; its bytes stay right,
/// and the cap is kept.
#[test]
fn a_region_that_is_locked_later_stays_right() {
    in_child("a_region_that_is_locked_later_stays_right", |method| {
        let path = file_of(LEN);
        let region = over_file(path.path(), 0, LEN, config(method, CAP));
        Memory::of(&region).read(0);
        if !locks() {
            return;
        }
        assert!(region.stats().resident_bytes <= CAP, "{:?}", region.stats());
        serves(&region, path.path());
        drop(region.pin(0, MIB).expect("pinned"));
        region.evict(0, LEN).expect("evicted");
    });
}

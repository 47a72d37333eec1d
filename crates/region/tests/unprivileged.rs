//! Regions of unprivileged processes: any user, no io_uring, no memory to lock.

mod common;

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use common::{KIB, MIB, Memory, config, file_of, methods, over_file, stamp};
use terrace_ledger::Ledger;
use terrace_region::{Advice, Contents, Method, Region, RegionConfig, RegionError, Source};
use terrace_store::MemoryBlocks;
use terrace_sys::fault_injection::{self, Call};
use terrace_sys::probe::{Probe, Support};
use terrace_testkit::{child, needs};

const LEN: u64 = 8 * MIB;
const UNPRIVILEGED_ID: u32 = 65534;

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

/// Becomes an unprivileged user; false if this process is not root and cannot.
fn drop_privileges() -> bool {
    let done = Probe::detect().root;
    if done {
        fault_injection::drop_privileges().expect("root may do so");
    } else {
        needs::skip("this is not root, who can be anybody");
    }
    done
}

/// Opens a region over a file, with a cap of a quarter of the file.
fn over(path: &std::path::Path, method: Method) -> Region {
    let patience = Duration::from_secs(10);
    let config = RegionConfig { patience, ..config(method, LEN / 4) };
    over_file(path, 0, LEN, config)
}

/// Checks that every page has its stamp and keeps a write, through memory and through the file.
fn serves(region: &Region) {
    let memory = Memory::of(region);
    for at in (0..LEN).step_by(4096) {
        assert_eq!(memory.read(at), stamp(at));
        memory.write(at, !stamp(at));
    }
    region.flush(0, LEN).expect("flushed");
    region.evict(0, LEN).expect("evicted");
    (0..LEN).step_by(4096).for_each(|at| assert_eq!(memory.read(at), !stamp(at)));
    region.advise(0, MIB, Advice::Unused).expect("told");
    region.prefetch(4 * MIB, MIB).expect("asked for");
}

/// Reads a file into the region by a system call.
fn read_into(region: &Region, offset: usize) -> std::io::Result<usize> {
    let mut zeros = std::fs::File::open("/dev/zero").expect("it is there");
    // SAFETY: the range is inside of the region and used by this thread alone; any byte value is
    // valid.
    zeros.read(unsafe { std::slice::from_raw_parts_mut(region.as_ptr().add(offset), 4096) })
}

#[test]
fn any_user_has_regions() {
    in_child("any_user_has_regions", |method| {
        let path = file_of(LEN);
        if !drop_privileges_with(path.path()) {
            return;
        }
        let region = over(path.path(), method);
        serves(&region);
        let probe = Probe::detect();
        assert!(probe.userfaultfd.works());
        let serves_all = probe.userfaultfd_system_calls.works();
        assert_eq!(region.serves_system_calls(), serves_all);
        region.evict(0, LEN).expect("evicted");
        if !serves_all {
            let error = read_into(&region, 5 << 20).expect_err("the block is absent");
            assert_eq!(error.raw_os_error(), Some(14), "EFAULT: {error}");
        }
        // System calls may read and write pinned memory, even if it was resident before.
        for round in 0..2 {
            let pin = region.pin(5 * MIB, 64 * KIB).expect("pinned");
            assert_eq!(read_into(&region, 5 << 20).expect("it is there"), 4096, "{round}");
            drop(pin);
            region.flush(5 * MIB, 64 * KIB).expect("flushed");
        }
        region.evict(0, LEN).expect("evicted");
        assert_eq!(Memory::of(&region).read(5 * MIB), 0, "what a system call wrote is kept");
    });
}

/// Gives the file to an unprivileged user, and becomes that user.
fn drop_privileges_with(path: &std::path::Path) -> bool {
    if Probe::detect().root {
        std::os::unix::fs::chown(path, Some(UNPRIVILEGED_ID), None).expect("root gives files away");
    }
    drop_privileges()
}

#[test]
fn a_region_needs_no_io_uring() {
    in_child("a_region_needs_no_io_uring", |method| {
        let path = file_of(LEN);
        assert_eq!(over(path.path(), method).engine(), "io_uring");
        fault_injection::refuse(&[Call::IoUring]).expect("filters");
        let region = over(path.path(), method);
        assert_eq!(region.engine(), "threads");
        serves(&region);
        let end = region.pin(LEN - 1, 1).expect("pinned");
        drop((end, region));
        // Bytes beyond the end of a file read as zero, and writes there extend the file.
        let longer = RegionConfig { patience: Duration::from_secs(10), ..config(method, MIB) };
        let region = over_file(path.path(), 0, LEN + MIB, longer);
        let memory = Memory::of(&region);
        assert_eq!(memory.read(LEN), 0);
        memory.write(LEN, 5);
        region.flush(0, LEN + MIB).expect("flushed");
        let len = std::fs::metadata(path.path()).expect("there").len();
        assert!(len > LEN, "{len}");
    });
}

#[test]
fn nothing_to_lock_is_no_reason_to_refuse() {
    in_child("nothing_to_lock_is_no_reason_to_refuse", |method| {
        let path = file_of(LEN);
        fault_injection::forbid_locked_memory().expect("less is always granted");
        if !drop_privileges_with(path.path()) {
            return;
        }
        serves(&over(path.path(), method));
        if let Support::Missing(reason) = Probe::detect().io_uring {
            assert!(reason.contains("ulimit -l"), "{reason}");
        }
    });
}

#[test]
fn who_may_not_have_one_is_told_what_would_help() {
    in_child("who_may_not_have_one_is_told_what_would_help", |_| {
        fault_injection::refuse(&[Call::Userfaultfd, Call::IoUring]).expect("filters");
        if !drop_privileges() {
            return;
        }
        let blocks = Arc::new(MemoryBlocks::new(MIB));
        let source = Source { blocks, offset: 0, len: MIB, contents: Contents::Blank };
        let made = Region::new(RegionConfig::new("mine", Ledger::new(MIB)), source);
        let error = made.expect_err("the container does not allow it");
        assert!(matches!(error, RegionError::Platform { .. }), "{error}");
        assert!(error.to_string().contains("seccomp"), "{error}");
    });
}

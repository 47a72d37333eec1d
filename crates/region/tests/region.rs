//! Regions through the public interface: over files and memory, by moving and by copying.

mod common;

use std::io::{Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{
    KIB, MIB, Memory, a_method, blank, config, file_of, methods, over_file, over_file_by, stamp,
};
use terrace_ledger::Ledger;
use terrace_region::{Advice, Contents, Method, Region, RegionConfig, RegionError, Source};
use terrace_store::{EngineChoice, FileBlocks, MemoryBlocks};
use terrace_sys::fault_injection;
use terrace_sys::file::DirectFile;
use terrace_sys::size::to_usize;
use terrace_testkit::device::{LoopDevice, or_skip};
use terrace_testkit::needs;

/// A step that touches every block whatever its size.
const BLOCK: usize = 64 << 10;

#[test]
fn bytes_of_a_file_are_read_and_written_whatever_the_cap() {
    for method in methods() {
        let path = file_of(5 * MIB + 1234);
        let region = over_file(path.path(), 0, 5 * MIB + 1234, config(method, MIB));
        let memory = Memory::of(&region);
        assert_eq!(region.len() as u64, (5 * MIB + 1234).next_multiple_of(4096));
        for round in 0..2 {
            for page in (0..=5 * MIB / 4096).rev() {
                let at = page * 4096;
                assert_eq!(memory.read(at), stamp(at), "{method} {round} {at}");
            }
        }
        assert_eq!(memory.read(5 * MIB + 1233), stamp(5 * MIB + 1233));
        assert_eq!(memory.read(5 * MIB + 1234), 0, "beyond the end of the file");
        let before = region.stats();
        assert_eq!(before.write_backs, 0, "{method}: nothing has changed: {before:?}");
        assert!(before.resident_bytes <= MIB && before.evicted > 0, "{before:?}");
        for at in (0..5 * MIB + 1234).step_by(100_000) {
            memory.write(at, !stamp(at));
        }
        memory.write(5 * MIB + 1233, 7);
        for at in (0..5 * MIB + 1234).step_by(100_000) {
            assert_eq!(memory.read(at), !stamp(at), "{method} {at}");
            assert_eq!(memory.read(at + 1), stamp(at + 1), "{method} {at}");
        }
        region.flush(0, region.len() as u64).expect("flushed");
        let mut bytes = Vec::new();
        path.reopen().expect("there").read_to_end(&mut bytes).expect("read");
        assert_eq!(bytes.len() as u64, 5 * MIB + 1234, "a file keeps its length");
        for at in (0..5 * MIB + 1234).step_by(100_000) {
            assert_eq!(bytes[to_usize(at)], !stamp(at), "{method} {at}");
        }
        assert_eq!(bytes[5 * to_usize(MIB) + 1233], 7);
    }
}

/// A region over a part of a block device leaves the bytes beside that part unchanged.
#[test]
fn bytes_of_a_device_are_read_and_written() {
    let Some(device) = or_skip("a block device", LoopDevice::attach(16 * MIB)) else { return };
    for (round, method) in (1..).zip(methods()) {
        let over = |offset, len| {
            let file = DirectFile::device(device.path()).expect("opened");
            let blocks = FileBlocks::open(file, 16 * MIB, EngineChoice::Auto).expect("blocks");
            let blocks = Arc::new(blocks);
            let source = Source { blocks, offset, len, contents: Contents::Stored };
            Region::new(config(method, MIB), source).expect("a region")
        };
        let region = over(4 * MIB, 8 * MIB);
        let memory = Memory::of(&region);
        for at in (0..8 * MIB).step_by(5000) {
            memory.write(at, stamp(at) ^ round);
        }
        // The device can be opened only once at a time, and the earlier writes are there.
        drop(region);
        let region = over(0, 16 * MIB);
        let memory = Memory::of(&region);
        for at in (0..8 * MIB).step_by(5000) {
            assert_eq!(memory.read(4 * MIB + at), stamp(at) ^ round, "{method} {at}");
        }
        assert!((0..4 * MIB).step_by(4096).all(|at| memory.read(at) == 0), "{method}: before it");
        assert!((12 * MIB..16 * MIB).step_by(4096).all(|at| memory.read(at) == 0), "behind it");
    }
}

#[test]
fn a_dropped_region_has_written_what_changed() {
    for method in methods() {
        let path = file_of(2 * MIB);
        let region = over_file(path.path(), MIB, MIB, config(method, 512 * KIB));
        Memory::of(&region).write(5, 99);
        drop(region);
        let mut file = path.reopen().expect("there");
        file.seek(std::io::SeekFrom::Start(MIB)).expect("there");
        let mut bytes = [0; 6];
        file.read_exact(&mut bytes).expect("read");
        assert_eq!(bytes[5], 99, "{method}: at the offset");
        assert_eq!(bytes[4], stamp(MIB + 4));
    }
}

#[test]
fn blank_regions_read_as_zero_and_keep_what_is_written() {
    for method in methods() {
        for pagers in [1, 3] {
            let region = blank(64 * MIB, RegionConfig { pagers, ..config(method, 6 * MIB) });
            let memory = Memory::of(&region);
            for at in (0..64 * MIB).step_by(BLOCK) {
                assert_eq!(memory.read(at), 0);
                memory.write(at + at / 7 % 4096, 1 + (at / 4096 % 250) as u8);
            }
            for at in (0..64 * MIB).step_by(BLOCK) {
                let place = at + at / 7 % 4096;
                assert_eq!(memory.read(place), 1 + (at / 4096 % 250) as u8, "{method} {at}");
            }
            let stats = region.stats();
            assert!(stats.resident_bytes <= 6 * MIB && stats.write_backs > 0, "{stats:?}");
            assert!(stats.fault.p50_ns > 0 && stats.faults > 0);
        }
    }
}

#[test]
fn what_is_pinned_stays_and_the_rest_goes_on() {
    for method in methods() {
        let region = blank(16 * MIB, config(method, 2 * MIB));
        let memory = Memory::of(&region);
        let pin = region.pin(MIB, 512 * KIB).expect("pinned");
        assert_eq!(
            (pin.len() as u64, pin.as_ptr()),
            (512 * KIB, region.as_ptr().wrapping_add(to_usize(MIB)))
        );
        memory.write(MIB, 5);
        (0..16 * MIB).step_by(BLOCK).for_each(|at| memory.write(at + 1, 1));
        let faults = region.stats().faults;
        assert_eq!(memory.read(MIB), 5);
        assert_eq!(region.stats().faults, faults, "{method}: it was in memory");
        let refused = region.evict(MIB, 1).expect_err("it is pinned");
        assert!(matches!(refused, RegionError::Timeout { blocks: 1, .. }), "{refused}");
        let refused = region.pin(4 * MIB, 7 * 256 * KIB).expect_err("more than the pin leaves");
        assert!(matches!(refused, RegionError::Timeout { .. }), "{refused}");
        drop(pin);
        region.evict(MIB, 512 * KIB).expect("gone");
        assert_eq!(memory.read(MIB), 5, "{method}: and back");
        // The pins of failed calls have been released.
        region.evict(0, 16 * MIB).expect("all of it");
        assert!(region.stats().resident_bytes <= MIB, "{:?}", region.stats());
        drop(region.pin(0, 1).expect("pinned"));
    }
}

#[test]
fn a_cap_shrinks_and_grows_and_the_ledger_counts() {
    for method in methods() {
        let ledger = Ledger::new(32 * MIB);
        let cap = RegionConfig { ledger: ledger.clone(), ..config(method, 16 * MIB) };
        let region = blank(32 * MIB, cap);
        let memory = Memory::of(&region);
        let touch = |value| {
            (0..32 * MIB).step_by(BLOCK).for_each(|at| memory.write(at, value));
        };
        touch(1);
        assert!(ledger.granted() > 12 * MIB && ledger.granted() <= 16 * MIB);
        region.set_cap(2 * MIB).expect("shrunk");
        let until = Instant::now() + Duration::from_secs(10);
        while ledger.granted() > 2 * MIB {
            assert!(Instant::now() < until, "{method}: {} stay", ledger.granted());
            std::thread::sleep(Duration::from_millis(1));
        }
        touch(2);
        assert!(ledger.granted() <= 2 * MIB);
        region.set_cap(16 * MIB).expect("grown");
        touch(3);
        assert!(ledger.granted() > 12 * MIB, "{method}: {}", ledger.granted());
        let others = ledger.register("others", terrace_ledger::Class::Query);
        others.try_grow(ledger.available()).expect("the rest");
        touch(4);
        assert_eq!(ledger.debt(), 0);
        (0..32 * MIB).step_by(BLOCK).for_each(|at| assert_eq!(memory.read(at), 4));
        let refused = region.set_cap(1000).expect_err("too small").to_string();
        assert!(refused.contains("512KiB at least"), "{refused}");
        drop(region);
        assert_eq!(ledger.granted(), others.held());
    }
}

#[test]
fn blocks_are_asked_for_ahead_in_order_and_on_request() {
    let Some(method) = a_method() else { return };
    let path = file_of(32 * MIB);
    let region = over_file(path.path(), 0, 32 * MIB, config(method, 8 * MIB));
    let memory = Memory::of(&region);
    (0..32 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), stamp(at)));
    let stats = region.stats();
    assert!(stats.ahead > 80, "most of 128 blocks came ahead: {stats:?}");
    region.advise(0, 32 * MIB, Advice::Random).expect("advised");
    region.evict(0, 32 * MIB).expect("gone");
    region.prefetch(MIB, 2 * MIB).expect("asked");
    let until = Instant::now() + Duration::from_secs(10);
    while region.stats().ahead < stats.ahead + 8 {
        assert!(Instant::now() < until, "{:?}", region.stats());
    }
    let pin = region.pin(MIB, 2 * MIB).expect("there");
    let faults = region.stats().faults;
    (MIB..3 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), stamp(at)));
    assert_eq!(region.stats().faults, faults);
    drop(pin);
}

/// Slow sequential readers, each in its own part of the region, find their blocks resident,
/// whatever other readers do and whichever pager serves the next part.
#[test]
fn each_of_many_readers_in_order_finds_its_blocks_there() {
    const LEN: u64 = 48 * MIB;
    let Some(method) = a_method() else { return };
    let path = file_of(LEN);
    for (readers, pagers) in [(2, 1), (3, 1), (3, 2)] {
        let setting = RegionConfig { pagers, ..config(method, 24 * MIB) };
        let region = over_file(path.path(), 0, LEN, setting);
        let memory = Memory::of(&region);
        std::thread::scope(|scope| {
            for reader in 0..readers {
                scope.spawn(move || {
                    let part = LEN / readers;
                    for at in (reader * part..(reader + 1) * part).step_by(4096) {
                        assert_eq!(memory.read(at), stamp(at));
                        if at.is_multiple_of(256 * KIB) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
            }
        });
        let stats = region.stats();
        let blocks = LEN / (256 * KIB);
        assert!(stats.ahead > blocks * 8 / 10, "{readers} readers, {pagers} pagers: {stats:?}");
        assert!(stats.faults < blocks / 2, "{readers} readers, {pagers} pagers: {stats:?}");
        // The blocks behind a reader's part may be read twice: the next reader has read and left
        // them.
        assert!(stats.fills <= blocks + 16 * readers, "read twice: {stats:?}");
    }
}

#[test]
fn touches_in_no_order_ask_for_nothing_ahead() {
    const LEN: u64 = 64 * MIB;
    let Some(method) = a_method() else { return };
    let path = file_of(LEN);
    let region = over_file_by(path.path(), 64 << 10, LEN, config(method, 8 * MIB));
    let memory = Memory::of(&region);
    let blocks = LEN / BLOCK as u64;
    for touch in 0..2 * blocks {
        let at = touch * 389 % blocks * BLOCK as u64;
        assert_eq!(memory.read(at), stamp(at));
    }
    let stats = region.stats();
    assert_eq!(stats.ahead, 0, "{stats:?}");
    assert!(stats.fills > blocks, "{stats:?}");
}

/// Flush and drop with more dirty blocks than frames to stage them in, or requests in flight.
#[test]
fn a_flush_of_many_blocks_keeps_them_and_a_drop_writes_them() {
    const LEN: u64 = 32 * MIB;
    for method in methods() {
        let path = file_of(LEN);
        let small = RegionConfig { patience: Duration::from_secs(20), ..config(method, 48 * MIB) };
        let region = over_file_by(path.path(), 64 << 10, LEN, small);
        let memory = Memory::of(&region);
        (0..LEN).step_by(BLOCK).for_each(|at| memory.write(at, 7));
        region.flush(0, LEN).expect("flushed");
        let before = region.stats();
        (0..LEN).step_by(BLOCK).for_each(|at| assert_eq!(memory.read(at), 7));
        let after = region.stats();
        assert_eq!((after.fills, after.evicted), (before.fills, 0), "{method}: they stay");
        assert_eq!(after.failures, 0);
        (0..LEN).step_by(BLOCK).for_each(|at| memory.write(at, 9));
        drop(region);
        let mut bytes = Vec::new();
        path.reopen().expect("there").read_to_end(&mut bytes).expect("read");
        for at in (0..LEN).step_by(BLOCK) {
            assert_eq!(bytes[to_usize(at)], 9, "{method} {at}");
        }
    }
}

/// Requests on a range of which most blocks were never touched or are evicted again.
#[test]
fn ranges_of_very_many_blocks_are_evicted_and_flushed_in_time() {
    for method in methods() {
        let patience = Duration::from_secs(20);
        let small = RegionConfig { block_bytes: 4096, patience, ..config(method, 2 * MIB) };
        let region = blank(2048 * MIB, small);
        let memory = Memory::of(&region);
        let touched = (0..2048 * MIB).step_by(to_usize(3 * MIB + 4096));
        touched.clone().for_each(|at| memory.write(at, stamp(at)));
        region.flush(0, 2048 * MIB).expect("half a million blocks");
        region.evict(0, 2048 * MIB).expect("half a million blocks");
        assert!(region.stats().resident_bytes <= 64 * KIB, "{method}: {:?}", region.stats());
        touched.for_each(|at| assert_eq!(memory.read(at), stamp(at), "{method} {at}"));
    }
}

#[test]
fn immutable_blocks_are_not_looked_at() {
    // Copied blocks are not checked for changes: write protection reports writes to them.
    if !needs::moves() {
        return;
    }
    let region = blank(4 * MIB, config(Method::Move, MIB));
    let memory = Memory::of(&region);
    (0..4 * MIB).step_by(4096).for_each(|at| memory.write(at, stamp(at)));
    region.advise(0, 4 * MIB, Advice::Immutable).expect("advised");
    let written = region.stats().write_backs;
    for _ in 0..3 {
        (0..4 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), stamp(at)));
    }
    // This write violates the advice; that it is lost shows that the block was not checked.
    memory.write(0, 250);
    region.evict(0, 4 * MIB).expect("gone");
    assert_eq!((region.stats().write_backs, memory.read(0)), (written, stamp(0)));
    region.advise(0, 4 * MIB, Advice::Mutable).expect("advised");
    (0..4 * MIB).step_by(4096).for_each(|at| memory.write(at, 3));
    (0..4 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), 3));
}

#[test]
fn system_calls_may_use_the_memory() {
    let Some(method) = a_method() else { return };
    let region = blank(4 * MIB, config(method, MIB));
    let path = file_of(3 * MIB);
    let mut file = path.reopen().expect("there");
    // SAFETY: the bytes belong to the region, and only this test uses them.
    let bytes = unsafe { std::slice::from_raw_parts_mut(region.as_ptr(), 3 * to_usize(MIB)) };
    file.read_exact(bytes).expect("read into the region");
    let mut copy = tempfile::tempfile().expect("a file");
    copy.write_all(bytes).expect("written from the region");
    let memory = Memory::of(&region);
    (0..3 * MIB).step_by(5000).for_each(|at| assert_eq!(memory.read(at), stamp(at)));
}

#[test]
fn dropped_pages_read_as_zero() {
    for method in methods() {
        let region = blank(4 * MIB, config(method, MIB));
        let memory = Memory::of(&region);
        (0..MIB).step_by(4096).for_each(|at| memory.write(at, 7));
        let pin = region.pin(0, 4096).expect("pinned");
        // SAFETY: the pages belong to the region, and no reference to them exists.
        unsafe { fault_injection::drop_pages(region.as_ptr(), 8192) }.expect("dropped");
        assert_eq!((memory.read(0), memory.read(4096)), (0, 0), "{method}");
        assert_eq!(memory.read(8192), 7);
        drop(pin);
        if method == Method::Copy {
            // A dropped page that was not touched since is read from the source again.
            continue;
        }
        // SAFETY: as above.
        unsafe { fault_injection::drop_pages(region.as_ptr(), 4096) }.expect("dropped");
        region.evict(0, MIB).expect("gone");
        assert_eq!((memory.read(0), memory.read(8192)), (0, 7), "{method}");
    }
}

/// A block of a huge page moves as one, and page by page after a hole is made in it.
#[test]
fn blocks_of_huge_pages_lose_nothing() {
    const LEN: u64 = 21 * MIB + 1234;
    const HUGE: usize = 2 << 20;
    let cases = methods().into_iter().flat_map(|method| [(method, HUGE), (method, 2 * HUGE)]);
    for (method, block_bytes) in cases {
        let path = file_of(LEN);
        let region = over_file_by(path.path(), block_bytes, LEN, config(method, 8 * MIB));
        let memory = Memory::of(&region);
        let mut bytes: Vec<u8> = (0..LEN).map(stamp).collect();
        for round in 0..4_u8 {
            for at in (u64::from(round)..LEN).step_by(50_000) {
                assert_eq!(memory.read(at), bytes[to_usize(at)], "{method} {round} {at}");
                if at / 50_000 % 3 == 0 {
                    memory.write(at, round);
                    bytes[to_usize(at)] = round;
                }
            }
            // One page of a block, and all pages of another; dropped pages of a copied block may
            // come back.
            let holes = if method == Method::Move {
                [(3 * HUGE + 8192, 4096), (HUGE, HUGE)]
            } else {
                [(0, 0); 2]
            };
            for (at, len) in holes {
                let pin = region.pin(at as u64, len as u64).expect("pinned");
                // SAFETY: the pages belong to the region, and no reference to them exists.
                unsafe { fault_injection::drop_pages(pin.as_ptr(), len) }.expect("dropped");
                bytes[at..at + len].fill(0);
                assert_eq!(memory.read(at as u64), 0);
            }
        }
        drop(region);
        let mut found = Vec::new();
        path.reopen().expect("there").read_to_end(&mut found).expect("read");
        assert!(found == bytes, "{method}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    let Some(method) = a_method() else { return };
    let ledger = Ledger::new(16 * MIB);
    let source = |offset, len| Source {
        blocks: Arc::new(MemoryBlocks::new(16 * MIB)),
        offset,
        len,
        contents: Contents::Blank,
    };
    let refused = |change: fn(&mut RegionConfig), source: Source| {
        let mut config = RegionConfig::new("odd", ledger.clone());
        change(&mut config);
        Region::new(config, source).expect_err("refused").to_string()
    };
    let ok = || source(0, MIB);
    assert!(refused(|c| c.block_bytes = 100_000, ok()).contains("powers of two"));
    assert!(refused(|c| c.block_bytes = 2048, ok()).contains("4 KiB"));
    assert!(refused(|c| c.cap_bytes = 4096, ok()).contains("512KiB at least"));
    assert!(refused(|c| c.pagers = 0, ok()).contains("1 to 64"));
    assert!(refused(|c| c.depth = 0, ok()).contains("1 to 16"));
    assert!(refused(|_| (), source(100, MIB)).contains("multiple of 4 KiB"));
    assert!(refused(|_| (), source(0, 0)).contains("has bytes"));
    let broke = Ledger::new(300 * KIB);
    let config = RegionConfig { cap_bytes: MIB, ..RegionConfig::new("odd", broke) };
    let error = Region::new(config, ok()).expect_err("no budget").to_string();
    assert!(error.contains("two blocks"), "{error}");
    let region = blank(MIB, self::config(method, MIB));
    let error = region.pin(MIB - 1, 2).expect_err("outside").to_string();
    assert!(error.contains("2 bytes at 1048575") && error.contains("1MiB"), "{error}");
    assert!(region.prefetch(u64::MAX, 2).is_err() && region.flush(0, 2 * MIB).is_err());
    drop(region.pin(MIB, 0).expect("nothing"));
}

/// The last block is written by whole pages and the file is cut back, unless another writer has
/// extended the file.
#[test]
fn a_file_that_became_longer_is_not_cut() {
    for method in methods() {
        let path = file_of(5000);
        let first = over_file(path.path(), 0, 5000, config(method, MIB));
        let mut file = path.reopen().expect("there");
        file.seek(std::io::SeekFrom::Start(MIB)).expect("a file");
        file.write_all(&[77; 4096]).expect("room");
        Memory::of(&first).write(17, 9);
        first.flush(0, 5000).expect("flushed");
        let mut bytes = Vec::new();
        file.rewind().expect("a file");
        file.read_to_end(&mut bytes).expect("read");
        assert_eq!((bytes.len() as u64, bytes[17]), (MIB + 4096, 9), "{method}");
        assert!(bytes[to_usize(MIB)..].iter().all(|byte| *byte == 77), "{method}");
    }
}

#[test]
fn sources_without_an_end_are_refused() {
    let Some(method) = a_method() else { return };
    let blocks = Arc::new(MemoryBlocks::new(MIB));
    for (offset, len) in [(u64::MAX - 65_535, 2 * 65_536), (1 << 63, 4096), (4096, u64::MAX)] {
        let source = Source { blocks: blocks.clone(), offset, len, contents: Contents::Stored };
        let error = Region::new(config(method, MIB), source).expect_err("it has no end");
        assert!(matches!(error, RegionError::Config { .. }), "{error}");
    }
}

#[test]
fn patience_may_have_no_end() {
    let Some(method) = a_method() else { return };
    let region = blank(MIB, RegionConfig { patience: Duration::MAX, ..config(method, MIB) });
    Memory::of(&region).write(0, 1);
    drop(region.pin(0, MIB).expect("pinned"));
    region.flush(0, MIB).expect("flushed");
    region.evict(0, MIB).expect("evicted");
    assert_eq!(Memory::of(&region).read(0), 1);
}

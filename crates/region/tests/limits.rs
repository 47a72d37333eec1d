//! Regions at their limits: more pins than frames, very many waiters, sources with odd ends.

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{
    KIB, MIB, Memory, a_method, blank, config, faulty, file_of, methods, over_file_by, stamp,
};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Method, Region, RegionConfig, RegionError, Source};
use terrace_store::{EngineChoice, FileBlocks, MemoryBlocks};
use terrace_sys::file::DirectFile;
use terrace_sys::size::to_usize;
use terrace_testkit::device::{LoopDevice, or_skip};
use terrace_testkit::{Fault, Target, When};

const BLOCK: u64 = 64 * KIB;
const LONG: Duration = Duration::from_secs(60);

fn by_small_blocks(method: Method) -> RegionConfig {
    RegionConfig { block_bytes: to_usize(BLOCK), patience: LONG, ..config(method, MIB) }
}

/// A pin that can never succeed fails at once, without a wait.
#[test]
fn more_than_the_cap_cannot_be_pinned() {
    for method in methods() {
        let region = blank(16 * MIB, by_small_blocks(method));
        let most = MIB - if method == Method::Copy { BLOCK } else { 0 };
        let began = Instant::now();
        let refused = region.pin(MIB, most + 1).expect_err("more than the cap");
        assert!(matches!(refused, RegionError::Cap { .. }), "{refused}");
        assert!(refused.to_string().contains("its cap is 1MiB"), "{refused}");
        assert!(began.elapsed() < LONG, "{method}");
        drop(region.pin(MIB, most).expect("all that there is"));
        Memory::of(&region).write(0, 1);
        region.set_cap(4 * MIB).expect("more");
        drop(region.pin(MIB, 2 * MIB).expect("room"));
    }
}

/// Sizes that cannot be mapped return an error instead of ending the process.
#[test]
fn more_notes_than_memory_are_refused() {
    let blocks = Arc::new(MemoryBlocks::new(64 << 40));
    for (len, reason) in [(64 << 40, "larger blocks need less"), (u64::MAX / 2 + 1, "8 EiB")] {
        let source = Source { blocks: blocks.clone(), offset: 0, len, contents: Contents::Blank };
        let small = RegionConfig { block_bytes: 4 << 10, ..by_small_blocks(Method::Move) };
        let refused = Region::new(small, source).expect_err("too many blocks");
        assert!(refused.to_string().contains(reason), "{refused}");
    }
}

/// A prefetch of more than the cap brings the first blocks of the range, and they stay.
#[test]
fn what_is_asked_for_ahead_fits() {
    for method in methods() {
        let path = file_of(16 * MIB);
        let config = RegionConfig { ahead_bytes: 0, ..by_small_blocks(method) };
        let region = over_file_by(path.path(), to_usize(BLOCK), 16 * MIB, config);
        region.prefetch(0, 16 * MIB).expect("asked for");
        let until = Instant::now() + LONG;
        while region.stats().ahead < 13 {
            assert!(Instant::now() < until, "{method}: {:?}", region.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        let fills = region.stats().fills;
        assert!((13..=16).contains(&fills), "{method}: {:?}", region.stats());
        let memory = Memory::of(&region);
        (0..12 * BLOCK).step_by(4096).for_each(|at| assert_eq!(memory.read(at), stamp(at)));
        assert_eq!(region.stats().fills, fills, "{method}: none of them had left");
    }
}

/// Requests that wait for pinned blocks take no pager time from faults.
#[test]
fn faults_come_before_who_waits_for_pins() {
    const PINNED: u64 = 20_000;
    for method in methods() {
        let ledger = Ledger::new(1 << 30);
        let config = RegionConfig {
            block_bytes: 4096,
            ahead_bytes: 0,
            ledger,
            patience: LONG,
            ..config(method, 512 * MIB)
        };
        let region = blank(1 << 30, config);
        let memory = Memory::of(&region);
        let pin = region.pin(0, PINNED * 4096).expect("pinned");
        (0..PINNED).for_each(|page| memory.write(page * 4096, 1));
        let touch = |from: u64| {
            let began = Instant::now();
            (from..from + 300).for_each(|page| memory.write((PINNED + page) * 4096, 1));
            began.elapsed()
        };
        let alone = touch(0);
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| region.flush(0, PINNED * 4096));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!flush.is_finished(), "{method}: they are pinned");
            let beside = touch(300);
            // This took a hundred times as long when all waiting blocks were checked for each
            // fault.
            let limit = 10 * alone + Duration::from_millis(200);
            assert!(beside < limit, "{method}: {beside:?} and {alone:?}");
            drop(pin);
            flush.join().expect("no panic").expect("written once they are unpinned");
        });
    }
}

/// A small request does not wait for the whole of a large one.
#[test]
fn large_ranges_take_turns_with_small_ones() {
    const BLOCKS: u64 = 3000;
    for method in methods() {
        let config = RegionConfig { block_bytes: 4096, patience: LONG, ..config(method, 32 * MIB) };
        let (region, blocks) = faulty(config, 64 * MIB, Contents::Blank);
        let memory = Memory::of(&region);
        let dirty = || (0..BLOCKS).for_each(|block| memory.write(block * 4096, 7));
        dirty();
        blocks.inject(Target::Write, When::Always, Fault::Delay(Duration::from_millis(2)));
        std::thread::scope(|scope| {
            let large = scope.spawn(|| region.flush(0, BLOCKS * 4096));
            std::thread::sleep(Duration::from_millis(20));
            region.flush((BLOCKS - 1) * 4096, 1).expect("durable");
            drop(region.pin(40 * MIB, 10 * 4096).expect("pinned"));
            region.evict((BLOCKS - 2) * 4096, 1).expect("gone");
            assert!(!large.is_finished(), "{method}: it takes a second and more");
            large.join().expect("no panic").expect("durable");
        });
        (0..BLOCKS).for_each(|block| assert_eq!(memory.read(block * 4096), 7));
    }
}

/// Faults are handled while a request covers millions of absent blocks.
#[test]
fn very_large_ranges_keep_no_thread_waiting() {
    let Some(method) = a_method() else { return };
    let config = RegionConfig { block_bytes: 4096, patience: LONG, ..config(method, 8 * MIB) };
    let region = blank(16 << 30, config);
    let memory = Memory::of(&region);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let touches = scope.spawn(|| {
            let mut times = Vec::new();
            for page in 0_u64.. {
                let began = Instant::now();
                memory.read(page % 4_000_000 * 4096);
                times.push(began.elapsed());
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
            }
            times
        });
        for _ in 0..3 {
            region.evict(0, 16 << 30).expect("gone");
        }
        is_done.store(true, Ordering::Relaxed);
        let mut times = touches.join().expect("no panic");
        times.sort_unstable();
        // A single call once took 90 ms, during which no fault was handled.
        let slow = times.iter().filter(|time| **time > Duration::from_millis(50)).count();
        assert!(slow <= 1, "{slow} of {} touches, {:?} at most", times.len(), times.last());
    });
}

/// A source that ends within a page is read and written up to its end, and no further.
#[test]
fn sources_may_have_odd_ends() {
    for method in methods() {
        let attach = || or_skip("a block device", LoopDevice::attach(MIB + 512));
        let Some(device) = attach() else { return };
        let open = |len| {
            let file = DirectFile::device(device.path()).expect("opened");
            let blocks = FileBlocks::open(file, 16 * MIB, EngineChoice::Auto).expect("blocks");
            let source =
                Source { blocks: Arc::new(blocks), offset: 0, len, contents: Contents::Stored };
            Region::new(by_small_blocks(method), source)
        };
        let region = open(MIB + 512).expect("a region");
        let memory = Memory::of(&region);
        memory.write(MIB + 511, 7);
        memory.write(MIB + 512, 8);
        region.flush(0, MIB + 512).expect("durable");
        region.evict(0, MIB + 512).expect("gone");
        assert_eq!([511, 512].map(|at| memory.read(MIB + at)), [7, 0], "{method}");
        drop(region);
        let region = open(MIB + 512).expect("a region");
        assert_eq!(Memory::of(&region).read(MIB + 511), 7);
        drop(region);
        let refused = open(MIB + 513).expect_err("it ends before").to_string();
        assert!(refused.contains("it has 1049088"), "{refused}");

        let blocks = Arc::new(MemoryBlocks::new(MIB + 1));
        let source = Source { blocks, offset: 0, len: MIB + 1, contents: Contents::Stored };
        let region = Region::new(by_small_blocks(method), source).expect("a region");
        let memory = Memory::of(&region);
        memory.write(MIB, 9);
        region.evict(0, MIB + 1).expect("written");
        assert_eq!([0, 1].map(|at| memory.read(MIB + at)), [9, 0], "{method}");
    }
}

/// A pin that outlives its region keeps its memory; its bytes reach the source all the same.
#[test]
fn what_is_pinned_when_a_region_ends_is_written() {
    for method in methods() {
        let path = file_of(MIB + 100);
        let region = over_file_by(path.path(), to_usize(BLOCK), MIB + 100, by_small_blocks(method));
        let memory = Memory::of(&region);
        let pins = [0, MIB].map(|at| region.pin(at, 1).expect("pinned"));
        [0, BLOCK, MIB].iter().for_each(|at| memory.write(*at, 200));
        let began = Instant::now();
        drop(region);
        assert!(began.elapsed() < LONG / 2, "{method}: no thread waits for pins");
        let file = File::open(path.path()).expect("there");
        assert_eq!(file.metadata().expect("there").len(), MIB + 100, "{method}");
        for at in [0, BLOCK, MIB] {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("read");
            assert_eq!(byte, [200], "{method} {at}");
        }
        drop(pins);
    }
}

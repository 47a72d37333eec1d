//! Requests are served in time: for a block that is unpinned, for the next of many blocks, for a
//! fault beside much other work; and a region can be dropped, whatever its source does.

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{KIB, MIB, Memory, blank, config, faulty, methods};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Method, Region, RegionConfig, RegionError, Source};
use terrace_sys::size::to_usize;
use terrace_testkit::{Fault, FaultyBlocks, Target, When};

const BLOCK: u64 = 64 * KIB;
const LONG: Duration = Duration::from_secs(60);

fn by_blocks(method: Method, cap_bytes: u64, patience: Duration) -> RegionConfig {
    RegionConfig { block_bytes: to_usize(BLOCK), patience, ..config(method, cap_bytes) }
}

fn slow(ms: u64) -> Fault {
    Fault::Delay(Duration::from_millis(ms))
}

/// Creates a region with `count` dirty blocks of one page, fewer than its cap.
fn changed(method: Method, count: u64, patience: Duration) -> (Region, Arc<FaultyBlocks>) {
    let config = RegionConfig { block_bytes: 4096, patience, ..config(method, 32 * MIB) };
    let (region, blocks) = faulty(config, 64 * MIB, Contents::Blank);
    let memory = Memory::of(&region);
    (0..count).for_each(|block| memory.write(block * 4096, 7));
    (region, blocks)
}

/// A pinned block is checked again although another block is in transfer beside it.
#[test]
fn who_waits_for_a_pinned_block_is_served_once_it_is_free() {
    for method in methods() {
        let (region, blocks) = faulty(by_blocks(method, MIB, LONG), 16 * MIB, Contents::Blank);
        let memory = Memory::of(&region);
        (0..2).for_each(|block| memory.write(block * BLOCK, 1));
        let pin = region.pin(0, BLOCK).expect("pinned");
        blocks.inject(Target::Write, When::Always, slow(20));
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| region.flush(0, 2 * BLOCK));
            std::thread::sleep(Duration::from_millis(150));
            assert!(!flush.is_finished(), "{method}: one is pinned");
            drop(pin);
            let free = Instant::now();
            flush.join().expect("no panic").expect("durable");
            assert!(free.elapsed() < LONG / 4, "{method}: {:?}", free.elapsed());
        });
    }
}

/// The timeout applies to each block: a request that progresses slowly does not time out.
#[test]
fn what_goes_on_is_waited_for() {
    const BLOCKS: u64 = 64;
    for method in methods() {
        let config = || by_blocks(method, 8 * MIB, Duration::from_millis(200));
        let (region, blocks) = faulty(config(), 16 * MIB, Contents::Stored);
        let write = |value| {
            let memory = Memory::of(&region);
            (0..BLOCKS).for_each(|block| memory.write(block * BLOCK, value));
        };
        write(1);
        blocks.inject(Target::Write, When::Always, slow(40));
        let began = Instant::now();
        region.flush(0, 16 * MIB).expect("durable");
        assert!(began.elapsed() > Duration::from_millis(300), "{method}: it takes a while");
        write(2);
        drop(region);
        blocks.heal();
        let source = Source { blocks, offset: 0, len: 16 * MIB, contents: Contents::Stored };
        let region = Region::new(config(), source).expect("a region");
        let memory = Memory::of(&region);
        (0..BLOCKS).for_each(|block| assert_eq!(memory.read(block * BLOCK), 2, "{method} {block}"));
    }
}

/// An eviction of more blocks than can be in transfer at a time reports each block as it leaves.
#[test]
fn an_eviction_of_many_goes_on() {
    const BLOCKS: u64 = 400;
    for method in methods() {
        // Four blocks are written at a time: the first 160 take 800 ms.
        let patience = Duration::from_millis(500);
        let (region, blocks) = changed(method, BLOCKS, patience);
        blocks.inject(Target::Write, When::Always, slow(20));
        region.evict(0, BLOCKS * 4096).expect("gone");
        let memory = Memory::of(&region);
        (0..BLOCKS).for_each(|block| assert_eq!(memory.read(block * 4096), 7, "{method} {block}"));
    }
}

/// Blocks left in write-back by an eviction that timed out do not hold up later requests.
#[test]
fn what_an_eviction_left_behind_makes_room() {
    const BLOCKS: u64 = 1000;
    for method in methods() {
        let patience = Duration::from_millis(300);
        let (region, blocks) = changed(method, BLOCKS, patience);
        blocks.inject(Target::Write, When::Always, slow(1000));
        let late = region.evict(0, BLOCKS * 4096).expect_err("nothing goes on");
        assert!(matches!(late, RegionError::Timeout { .. }), "{late}");
        blocks.heal();
        std::thread::sleep(Duration::from_millis(1500));
        region.flush((BLOCKS - 1) * 4096, 1).expect("durable");
        region.evict(0, BLOCKS * 4096).expect("gone");
        let memory = Memory::of(&region);
        (0..BLOCKS).for_each(|block| assert_eq!(memory.read(block * 4096), 7, "{method} {block}"));
    }
}

/// A region can be dropped although its source refuses all writes, before the drop and during it.
#[test]
fn a_region_whose_source_refuses_all_ends() {
    let cases = methods()
        .into_iter()
        .flat_map(|method| [Contents::Blank, Contents::Stored].map(|contents| (method, contents)));
    for (method, contents) in cases {
        let (region, blocks) = faulty(by_blocks(method, 4 * MIB, LONG), 16 * MIB, contents);
        blocks.inject(Target::Write, When::Always, slow(20));
        blocks.inject(Target::Write, When::Always, Fault::Full);
        let memory = Memory::of(&region);
        // The blocks fill all frames, so that some must be evicted.
        let count = if method == Method::Move { 64 } else { 63 };
        (0..count).for_each(|block| memory.write(block * BLOCK, 1));
        let until = Instant::now() + LONG;
        while region.stats().failures == 0 {
            assert!(Instant::now() < until, "{method} {contents:?}: {:?}", region.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            drop(region);
            sender.send(()).expect("the test waits");
        });
        ended.recv_timeout(LONG).expect("it ends");
    }
}

/// Faults are handled during a large prefetch, and while the cap shrinks.
#[test]
fn faults_come_before_hints_and_smaller_caps() {
    const CAP: u64 = 256 * MIB;
    const AHEAD: u64 = 224 * MIB;
    for method in methods() {
        let ledger = Ledger::new(2 * CAP);
        let config = || RegionConfig { ledger: ledger.clone(), ..by_blocks(method, CAP, LONG) };
        let beside = || {
            let region = blank(2 * CAP, config());
            let memory = Memory::of(&region);
            region.prefetch(0, AHEAD).expect("asked for");
            std::thread::sleep(Duration::from_millis(2));
            memory.read(CAP + MIB);
            let is_beside = region.stats().ahead < AHEAD / BLOCK / 2;
            let until = Instant::now() + LONG;
            while region.stats().resident_bytes < AHEAD {
                assert!(Instant::now() < until, "{method}: {:?}", region.stats());
                std::thread::sleep(Duration::from_millis(1));
            }
            region.set_cap(MIB).expect("less");
            std::thread::sleep(Duration::from_millis(2));
            memory.read(CAP + 2 * MIB);
            let is_beside = (is_beside, region.stats().resident_bytes > 2 * MIB);
            while region.stats().resident_bytes > MIB {
                assert!(Instant::now() < until, "{method}: {:?}", region.stats());
                std::thread::sleep(Duration::from_millis(1));
            }
            is_beside
        };
        // A thread that sleeps too long on a busy machine misses both.
        let seen: Vec<_> = (0..5).map(|_| beside()).collect();
        assert!(seen.iter().any(|(ahead, _)| *ahead), "{method}: {seen:?}");
        assert!(seen.iter().any(|(_, cap)| *cap), "{method}: {seen:?}");
    }
}

//! Blocks declared unused are neither written back nor read again; blocks used again are kept.

mod common;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{KIB, MIB, Memory, blank, config, faulty, file_of, methods, over_file_by, stamp};
use terrace_region::{Advice, Contents, Method, Region, RegionConfig};
use terrace_sys::size::to_usize;
use terrace_testkit::{Fault, Rng, Target, When, with_seed};

const BLOCK: u64 = 64 * KIB;

fn by_small_blocks(method: Method, cap_bytes: u64) -> RegionConfig {
    let patience = Duration::from_secs(20);
    RegionConfig { block_bytes: to_usize(BLOCK), patience, ..config(method, cap_bytes) }
}

fn wait_for(what: &str, region: &Region, is_done: impl Fn(&Region) -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_done(region) {
        assert!(Instant::now() < until, "{what}: {:?}", region.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn unused_blocks_leave_without_being_written() {
    for method in methods() {
        let region = blank(4 * MIB, by_small_blocks(method, 8 * MIB));
        let memory = Memory::of(&region);
        (0..4 * MIB).step_by(4096).for_each(|at| memory.write(at, 7));
        assert!(region.stats().resident_bytes >= 4 * MIB);
        region.advise(0, 4 * MIB, Advice::Unused).expect("said");
        wait_for("memory comes back", &region, |region| {
            let stats = region.stats();
            stats.discarded == 64 && stats.resident_bytes <= 2 * BLOCK
        });
        assert_eq!(region.stats().written_bytes, 0, "{method}");
        region.advise(0, MIB, Advice::Used).expect("said");
        for at in (0..MIB).step_by(4096) {
            assert_eq!(memory.read(at), 0, "{method}");
            memory.write(at, 8);
        }
        region.evict(0, MIB).expect("gone");
        assert_eq!(region.stats().write_backs, 16, "{method}");
        (0..MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), 8, "{method}"));
        assert_eq!(region.stats().read_bytes, MIB, "{method}");
        // The source's copy of the blocks is not read again.
        region.evict(0, MIB).expect("gone");
        region.advise(0, MIB, Advice::Unused).expect("said");
        // The pager processes unused ranges before later requests.
        region.evict(0, 1).expect("gone");
        (0..MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), 0, "{method}"));
        assert_eq!(region.stats().read_bytes, MIB, "{method}");
    }
}

#[test]
fn blocks_that_are_needed_in_part_stay_whole() {
    for method in methods() {
        let path = file_of(2 * MIB + 1234);
        let config = by_small_blocks(method, MIB);
        let region = over_file_by(path.path(), to_usize(BLOCK), 2 * MIB + 1234, config);
        let memory = Memory::of(&region);
        (0..2 * MIB).step_by(4096).for_each(|at| memory.write(at, !stamp(at)));
        // The ranges cover sixteen blocks and two halves, and the last block, which is short.
        let (from, end) = (MIB / 2 - BLOCK / 2, MIB + MIB / 2 + BLOCK / 2);
        region.advise(from, end - from, Advice::Unused).expect("said");
        region.advise(2 * MIB, region.len() as u64 - 2 * MIB, Advice::Unused).expect("said");
        region.evict(0, region.len() as u64).expect("gone");
        for at in (0..2 * MIB).step_by(4096) {
            let found = memory.read(at);
            if (MIB / 2..MIB + MIB / 2).contains(&at) {
                assert!([0, stamp(at), !stamp(at)].contains(&found), "{method} {at}");
            } else {
                assert_eq!(found, !stamp(at), "{method} {at}");
            }
        }
        assert!([0, stamp(2 * MIB + 5)].contains(&memory.read(2 * MIB + 5)), "{method}");
        assert!(region.advise(0, 4 * MIB, Advice::Unused).is_err());
    }
}

/// Write and read failures of a block end when the block is declared unused.
#[test]
fn failures_are_forgotten_with_the_bytes() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method, MIB), MIB, Contents::Stored);
        let memory = Memory::of(&region);
        blocks.inject(Target::Write, When::Always, Fault::Full);
        memory.write(0, 1);
        region.evict(0, BLOCK).expect_err("full");
        assert!(region.stats().latched.is_some(), "{method}");
        blocks.inject(Target::Read, When::Always, Fault::Eio);
        region.pin(MIB / 2, 1).expect_err("unreadable");
        region.advise(0, MIB, Advice::Unused).expect("said");
        wait_for("the latch opens", &region, |region| region.stats().latched.is_none());
        region.advise(0, MIB, Advice::Used).expect("said");
        drop(region.pin(MIB / 2, 1).expect("zeros"));
        memory.write(MIB / 2, 5);
        blocks.heal();
        region.evict(0, MIB).expect("gone");
        assert_eq!((memory.read(0), memory.read(MIB / 2)), (0, 5), "{method}");
    }
}

/// Zeros that replace unused bytes are stored like any other bytes.
#[test]
fn zeros_are_stored_where_other_bytes_were() {
    for method in methods() {
        let path = file_of(MIB);
        let open = || over_file_by(path.path(), to_usize(BLOCK), MIB, by_small_blocks(method, MIB));
        let region = open();
        let memory = Memory::of(&region);
        assert_eq!(memory.read(5), stamp(5));
        region.advise(0, BLOCK, Advice::Unused).expect("said");
        region.evict(0, BLOCK).expect("gone");
        region.advise(0, BLOCK, Advice::Used).expect("said");
        (0..BLOCK).for_each(|at| memory.write(at, 0));
        region.flush(0, BLOCK).expect("stored");
        // Also without a write: the zeros were read once and must be read again.
        region.advise(BLOCK, BLOCK, Advice::Unused).expect("said");
        region.evict(BLOCK, BLOCK).expect("gone");
        region.advise(BLOCK, BLOCK, Advice::Used).expect("said");
        assert_eq!(memory.read(BLOCK), 0, "{method}");
        region.flush(BLOCK, BLOCK).expect("stored");
        drop(region);
        let region = open();
        let memory = Memory::of(&region);
        (0..2 * BLOCK).for_each(|at| assert_eq!(memory.read(at), 0, "{method} {at}"));
        assert_eq!(memory.read(2 * BLOCK), stamp(2 * BLOCK));
    }
}

/// Bytes used again may change, even if their predecessors were declared immutable.
#[test]
fn what_never_changed_may_change_once_it_is_used_again() {
    for method in methods() {
        let region = blank(MIB, by_small_blocks(method, MIB));
        let memory = Memory::of(&region);
        memory.write(0, 1);
        for advice in [Advice::Immutable, Advice::Unused, Advice::Used] {
            region.advise(0, BLOCK, advice).expect("said");
        }
        memory.write(0, 5);
        region.evict(0, BLOCK).expect("gone");
        assert_eq!(memory.read(0), 5, "{method}");
    }
}

/// A pager that is told of more unused ranges than its list holds reads none of them again.
#[test]
fn more_parts_than_a_pager_is_told_of() {
    const PARTS: u64 = 2000;
    for method in methods() {
        let config = RegionConfig { block_bytes: 4096, pagers: 2, ..config(method, 4 * MIB) };
        let region = blank(2 * PARTS * 4096, RegionConfig { ahead_bytes: 0, ..config });
        let memory = Memory::of(&region);
        (0..2 * PARTS).for_each(|page| memory.write(page * 4096, 3));
        region.evict(0, 2 * PARTS * 4096).expect("gone");
        let parts = || (0..PARTS).map(|part| 2 * part * 4096);
        parts().for_each(|at| region.advise(at, 4096, Advice::Unused).expect("said"));
        parts().for_each(|at| region.advise(at, 4096, Advice::Used).expect("said"));
        for at in parts() {
            assert_eq!((memory.read(at), memory.read(at + 4096)), (0, 3), "{method} {at}");
        }
        assert_eq!(region.stats().read_bytes, PARTS * 4096, "{method}");
    }
}

/// A declaration as unused during a block's write-back takes effect, even if the block is used
/// again before the write ends.
#[test]
fn blocks_that_are_being_written_are_not_read_again() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method, MIB), MIB, Contents::Blank);
        let memory = Memory::of(&region);
        memory.write(0, 7);
        blocks.inject(Target::Write, When::Always, Fault::Delay(Duration::from_millis(300)));
        std::thread::scope(|scope| {
            let evicted = scope.spawn(|| region.evict(0, BLOCK));
            wait_for("written", &region, |_| !blocks.struck().is_empty());
            region.advise(0, BLOCK, Advice::Unused).expect("said");
            region.advise(0, BLOCK, Advice::Used).expect("said");
            evicted.join().expect("no panic").expect("gone");
        });
        assert_eq!((memory.read(0), region.stats().read_bytes), (0, 0), "{method}");
        memory.write(0, 8);
        region.evict(0, BLOCK).expect("gone");
        assert_eq!(memory.read(0), 8, "{method}");
    }
}

/// A lower cap evicts the excess blocks, and no more.
#[test]
fn a_lower_cap_takes_out_what_is_too_much() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method, 16 * MIB), 16 * MIB, Contents::Blank);
        let memory = Memory::of(&region);
        (0..8 * MIB).step_by(4096).for_each(|at| memory.write(at, 7));
        blocks.inject(Target::Write, When::Always, Fault::Delay(Duration::from_millis(50)));
        region.set_cap(8 * MIB - BLOCK).expect("resized");
        wait_for("a block leaves", &region, |region| {
            region.stats().resident_bytes <= 8 * MIB - BLOCK
        });
        assert!(region.stats().taken_out <= 16, "{:?}", region.stats());
    }
}

/// Uses one of the caller's blocks, checks the bytes last written, and declares it unused.
fn use_and_give_up(region: &Region, memory: Memory, own: Range<u64>, rng: &mut Rng) {
    let any = |rng: &mut Rng| (own.start + rng.below(own.end - own.start)) * BLOCK;
    let at = any(rng);
    region.advise(at, BLOCK, Advice::Used).expect("said");
    let value = u8::try_from(1 + rng.below(250)).unwrap_or(1);
    let pages = || (at..at + BLOCK).step_by(4096);
    pages().for_each(|at| memory.write(at, value));
    for _ in 0..rng.below(4) {
        std::hint::black_box(memory.read(any(rng)));
    }
    pages().for_each(|at| assert_eq!(memory.read(at), value, "byte {at}"));
    region.advise(at, BLOCK, Advice::Unused).expect("said");
}

#[test]
fn what_is_used_again_is_kept_whoever_evicts_it() {
    const THREADS: u64 = 3;
    const BLOCKS: u64 = 16;
    let seconds = std::env::var("TERRACE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(2));
    for method in methods() {
        with_seed(|seed| {
            let all = THREADS * BLOCKS * BLOCK;
            let config = RegionConfig { pagers: 2, ..by_small_blocks(method, all / 4) };
            let region = blank(all, config);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (region, stop) = (&region, &stop);
                    scope.spawn(move || {
                        let memory = Memory::of(region);
                        let mut rng = Rng::new(seed + thread);
                        while !stop.load(Ordering::Relaxed) {
                            let own = thread * BLOCKS..(thread + 1) * BLOCKS;
                            use_and_give_up(region, memory, own, &mut rng);
                        }
                    });
                }
                let mut rng = Rng::new(seed + 99);
                let until = Instant::now() + time;
                while Instant::now() < until {
                    let at = rng.below(all - 2 * BLOCK);
                    match rng.below(3) {
                        0 => region.evict(at, 2 * BLOCK).expect("evicted"),
                        1 => region.flush(at, BLOCK).expect("flushed"),
                        _ => region.set_cap((1 + rng.below(4)) * all / 8).expect("resized"),
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            let stats = region.stats();
            assert!(stats.discarded > 100 && stats.write_backs > 10, "{method}: {stats:?}");
        });
    }
}

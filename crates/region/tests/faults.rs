//! Failures: of the source, of the region's memory, of a pager, and processes without userfaultfd.

mod common;

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{KIB, MIB, Memory, a_method, blank, config, faulty, file_of, methods, over_file_by};
use terrace_ledger::Ledger;
use terrace_region::{Advice, Contents, Method, Part, Region, RegionConfig, RegionError};
use terrace_store::{Blocks as _, Io};
use terrace_sys::fault_injection;
use terrace_testkit::{Fault, FaultyBlocks, Target, When, child};

fn by_small_blocks(method: Method) -> RegionConfig {
    RegionConfig { block_bytes: 64 << 10, ..config(method, MIB) }
}

fn touch_all(memory: Memory, len: u64, value: u8) {
    (0..len).step_by(4096).for_each(|at| memory.write(at, value));
}

#[test]
fn a_read_error_passes_and_a_lasting_one_is_one_block_s() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Stored);
        let memory = Memory::of(&region);
        blocks.inject(Target::Read, When::Nth(1), Fault::Eio);
        assert_eq!(memory.read(0), 0, "{method}: tried again");
        assert_eq!((region.stats().failures, region.stats().poisoned), (1, 0));
        blocks.inject(Target::Read, When::Always, Fault::Eio);
        let error = region.pin(MIB, 1).expect_err("it cannot be read");
        let RegionError::Read { offset, .. } = &error else { panic!("{error}") };
        assert_eq!(*offset, MIB);
        blocks.heal();
        assert!(region.pin(MIB, 1).is_err(), "its bytes are unknown for good");
        assert_eq!(memory.read(MIB + 64 * KIB), 0, "{method}: the next block is well");
        assert_eq!(region.stats().poisoned, 1);
    }
}

#[test]
fn what_the_source_refuses_stays_and_is_told() {
    for method in methods() {
        for fault in [Fault::Eio, Fault::Full] {
            let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Blank);
            let memory = Memory::of(&region);
            (0..512 * KIB).step_by(4096).for_each(|at| memory.write(at, 9));
            blocks.inject(Target::Write, When::Always, fault);
            let error = region.flush(0, 64 * KIB).expect_err("it cannot be written");
            assert!(matches!(error, RegionError::Write { offset: 0, .. }), "{error}");
            assert!(region.stats().latched.is_some(), "{method}: and is remembered");
            let error = region.evict(0, 64 * KIB).expect_err("it stays");
            assert!(matches!(error, RegionError::Write { .. }), "{error}");
            (0..512 * KIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), 9));
            blocks.heal();
            region.flush(0, 4 * MIB).expect("written at last");
            assert_eq!(region.stats().latched, None);
            touch_all(memory, 4 * MIB, 3);
            (0..4 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), 3));
        }
    }
}

/// The error of a source is shown until the last block is written that it refused.
#[test]
fn an_error_is_shown_while_any_block_is_refused() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Blank);
        let memory = Memory::of(&region);
        (0..128 * KIB).step_by(4096).for_each(|at| memory.write(at, 9));
        blocks.inject(Target::Write, When::Always, Fault::Full);
        region.flush(0, 64 * KIB).expect_err("full");
        region.flush(64 * KIB, 64 * KIB).expect_err("full");
        blocks.heal();
        region.flush(0, 64 * KIB).expect("written");
        assert!(region.stats().latched.is_some(), "{method}: the second block is not written");
        region.flush(64 * KIB, 64 * KIB).expect("written");
        assert_eq!(region.stats().latched, None, "{method}");
    }
}

/// While the source refuses writes and all frames are dirty, threads that touch more blocks wait;
/// no bytes are lost, explicit requests get an error, and all continue when the source has room.
#[test]
fn a_full_source_makes_waiters_wait_until_there_is_room() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Blank);
        let memory = Memory::of(&region);
        blocks.inject(Target::Write, When::Always, Fault::Full);
        let toucher = std::thread::spawn(move || touch_all(memory, 4 * MIB, 5));
        let until = Instant::now() + Duration::from_secs(10);
        while region.stats().latched.is_none() {
            assert!(Instant::now() < until, "{method}: {:?}", region.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut faults = 0;
        while faults < region.stats().faults {
            faults = region.stats().faults;
            std::thread::sleep(Duration::from_millis(200));
        }
        let error = region.pin(4 * MIB - 1, 1).expect_err("no frame").to_string();
        assert!(error.contains("1 blocks were not ready"), "{error}");
        assert!(!toucher.is_finished());
        blocks.heal();
        toucher.join().expect("it goes on");
        (0..4 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), 5, "{method} {at}"));
    }
}

#[test]
fn a_source_that_fails_now_and_then_loses_nothing() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Blank);
        let memory = Memory::of(&region);
        blocks.inject(Target::Write, When::OneIn(5), Fault::Eio);
        blocks.inject(Target::Write, When::OneIn(7), Fault::Delay(Duration::from_millis(1)));
        for round in 1..20 {
            touch_all(memory, 4 * MIB, round);
            (0..4 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), round));
        }
        assert!(region.stats().failures > 10);
    }
}

#[test]
fn who_touches_what_cannot_be_read_gets_sigbus() {
    let Some(method) = a_method() else { return };
    if child::part().is_some() {
        let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Stored);
        blocks.inject(Target::Read, When::Always, Fault::Eio);
        Memory::of(&region).read(MIB);
        return;
    }
    let status = child::run("who_touches_what_cannot_be_read_gets_sigbus", "touch");
    assert_eq!(status.signal(), Some(fault_injection::SIGBUS), "{status}");
}

#[test]
fn a_child_process_has_no_part_in_it() {
    let Some(method) = a_method() else { return };
    let region = blank(4 * MIB, config(method, MIB));
    let memory = Memory::of(&region);
    touch_all(memory, 4 * MIB, 1);
    // SAFETY: the child reads a byte; it takes no lock and allocates nothing.
    let status = unsafe { fault_injection::in_child(|| memory.read(0)) }.expect("a child");
    assert_eq!(status.signal(), Some(fault_injection::SIGSEGV), "not mapped there");
    touch_all(memory, 4 * MIB, 2);
    (0..4 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), 2));
}

/// Unmaps blocks that hold all frames, one of them in part.
fn lose_a_part(method: Method, block_bytes: usize) -> Region {
    // I/O by the kernel: a thread that reads bytes while they are being unmapped would end this
    // process.
    let (path, config) = (file_of(4 * MIB), config(method, MIB.max(2 * block_bytes as u64)));
    let region = over_file_by(path.path(), block_bytes, 4 * MIB, config);
    let memory = Memory::of(&region);
    touch_all(memory, 4 * MIB, 1);
    let start = region.as_ptr().wrapping_add((2 << 20) + 4096);
    // SAFETY: no reference to the region's bytes exists. The unmap violates the region's contract,
    // which is what this tests.
    unsafe { fault_injection::unmap(start, (2 << 20) - 4096) }.expect("unmapped");
    for round in 2..5 {
        touch_all(memory, 2 * MIB, round);
        (0..2 * MIB).step_by(4096).for_each(|at| assert_eq!(memory.read(at), round, "{method}"));
    }
    assert_eq!(memory.read(2 * MIB), 1, "{method}: what is left of a block");
    memory.write(2 * MIB, 2);
    let error = region.flush(2 * MIB, 64 * KIB).expect_err("it is not whole").to_string();
    assert!(error.contains("unmapped"), "{error}");
    assert_eq!(memory.read(2 * MIB), 2, "{method}");
    region
}

#[test]
fn an_unmapped_part_hurts_no_other_block() {
    let methods = methods();
    if methods.is_empty() {
        return;
    }
    if child::part().is_some() {
        // The regions are not dropped: other code may have mapped the addresses that they would
        // unmap.
        let by = |block| methods.iter().map(move |way| lose_a_part(*way, block));
        let _regions: Vec<Region> = [256 << 10, 2 << 20].into_iter().flat_map(by).collect();
        fault_injection::leave(7);
    }
    let status = child::run("an_unmapped_part_hurts_no_other_block", "unmap");
    assert_eq!(status.code(), Some(7), "{status}");
}

#[test]
fn an_unreadable_block_is_in_no_other_one_s_way() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Stored);
        let memory = Memory::of(&region);
        memory.write(0, 9);
        blocks.inject(Target::Read, When::Always, Fault::Eio);
        region.pin(MIB, 1).expect_err("it cannot be read");
        blocks.heal();
        region.flush(0, 4 * MIB).expect("it was never written");
        region.evict(0, 4 * MIB).expect("it is not there");
        region.advise(0, 4 * MIB, Advice::Immutable).expect("it never changes");
        blocks.inject(Target::Write, When::Always, Fault::Eio);
        blocks.inject(Target::Sync, When::Always, Fault::Eio);
        region.advise(0, 4 * MIB, Advice::Mutable).expect("told");
        memory.write(0, 10);
        memory.write(2 * MIB, 11);
        let error = region.flush(0, 64 * KIB).expect_err("it cannot be written");
        assert!(matches!(error, RegionError::Write { offset: 0, .. }), "{error}");
        let synced = blocks.struck().iter().filter(|(target, _)| *target == Target::Sync).count();
        assert_eq!(synced, 1, "{method}: the others are made durable all the same");
    }
}

/// A source reports lost writes once; the region repeats the error from then on.
#[test]
fn a_sync_that_failed_is_never_forgotten() {
    for method in methods() {
        let (region, blocks) = faulty(by_small_blocks(method), 4 * MIB, Contents::Blank);
        let memory = Memory::of(&region);
        memory.write(0, 1);
        region.flush(0, MIB).expect("durable");
        memory.write(0, 2);
        blocks.inject(Target::Sync, When::Nth(1), Fault::Eio);
        for _ in 0..3 {
            let error = region.flush(0, MIB).expect_err("what is left is unknown");
            assert!(matches!(error, RegionError::Sync { .. }), "{error}");
            assert!(region.stats().latched.is_some(), "{method}");
        }
        region.evict(0, MIB).expect("that is no promise of lasting");
        assert_eq!(memory.read(0), 2);
    }
}

fn wait_for_the_end(region: &Region) {
    let until = Instant::now() + Duration::from_secs(10);
    while region.stats().latched.is_none_or(|text| !text.contains("a pager cannot go on")) {
        assert!(Instant::now() < until, "{:?}", region.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends a pager. Resident blocks can still be read and written, a touch of another block gets
/// SIGBUS, requests fail at once, and the budget gets its bytes back.
fn go_on_without_a_pager(method: Method, end_pager: fn(&Region, &FaultyBlocks)) {
    let ledger = Ledger::new(64 * MIB);
    let config = RegionConfig {
        ledger: ledger.clone(),
        patience: Duration::from_secs(60),
        ..by_small_blocks(method)
    };
    let (region, blocks) = faulty(config, 4 * MIB, Contents::Stored);
    let region = Arc::new(region);
    let memory = Memory::of(&region);
    assert_eq!(memory.read(0), 0);
    memory.write(64 * KIB, 3);
    let pin = region.pin(2 * MIB, 1).expect("pinned");
    // A slow write-back of a block is in flight.
    memory.write(128 * KIB, 4);
    blocks.inject(Target::Write, When::Nth(1), Fault::Delay(Duration::from_millis(300)));
    let writer = Arc::clone(&region);
    let write = std::thread::spawn(move || writer.flush(128 * KIB, 1));
    std::thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    end_pager(&region, &blocks);
    wait_for_the_end(&region);
    write.join().expect("no panic").expect_err("unknown");
    assert_eq!(memory.read(128 * KIB), 4, "{method}: it is there all the same");
    assert_eq!([0, 64 * KIB].map(|at| memory.read(at)), [0, 3]);
    memory.write(0, 5);
    memory.write(64 * KIB, 6);
    assert_eq!([0, 64 * KIB].map(|at| memory.read(at)), [5, 6], "{method}");
    drop(region.pin(0, 1).expect("it is there"));
    region.evict(3 * MIB, MIB).expect("it is not there");
    for error in [
        region.pin(MIB, 1).expect_err("it does not come"),
        region.flush(0, MIB).expect_err("it stays"),
        region.evict(0, MIB).expect_err("it stays"),
        Part::take(&region, "a test", 0, 4096).expect_err("it is of no use"),
    ] {
        assert!(error.to_string().contains("cannot go on"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "no thread waits for nothing");
    drop((pin, region));
    assert_eq!(ledger.granted(), 0, "{method}");
    // The write in flight has arrived, and nothing else.
    std::thread::sleep(Duration::from_millis(500));
    blocks.heal();
    let mut byte = [0];
    let mut batch = [Io::read(128 * KIB, &mut byte)];
    blocks.run(&mut batch, &|_| {});
    assert!(batch.iter().all(|io| io.result.is_ok()));
    assert_eq!(byte, [4], "{method}");
}

/// Log subscriber that panics when a failure is logged.
struct PanicsWhenTold;

impl tracing::Subscriber for PanicsWhenTold {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let is_transfer = event.fields().any(|field| field.name() == "is_write");
        assert!(!is_transfer, "planned");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

fn in_child_by_every_method(test: &str, way: fn(Method)) {
    match child::part().as_deref() {
        Some("move") => way(Method::Move),
        Some("copy") => way(Method::Copy),
        Some(_) => unreachable!("a part of another test"),
        None => {
            for method in methods() {
                let status = child::run(test, &method.to_string());
                assert_eq!(status.code(), Some(7), "{method}: {status}");
            }
            return;
        }
    }
    fault_injection::leave(7);
}

#[test]
fn a_pager_without_a_ring_says_so() {
    in_child_by_every_method("a_pager_without_a_ring_says_so", |method| {
        go_on_without_a_pager(method, |region, _| {
            assert_eq!(fault_injection::break_rings().expect("broken"), 1);
            region.set_cap(MIB).expect("it rings");
        });
    });
}

#[test]
fn a_pager_that_panics_reads_no_zeros() {
    in_child_by_every_method("a_pager_that_panics_reads_no_zeros", |method| {
        tracing::subscriber::set_global_default(PanicsWhenTold).expect("the first");
        go_on_without_a_pager(method, |region, blocks| {
            blocks.inject(Target::Read, When::Always, Fault::Eio);
            let error = region.pin(MIB + 64 * KIB, 1).expect_err("it cannot be read").to_string();
            assert!(error.contains("panicked"), "{error}");
        });
    });
}

#[test]
fn who_touches_what_a_broken_pager_had_not_brought_gets_sigbus() {
    let test = "who_touches_what_a_broken_pager_had_not_brought_gets_sigbus";
    let Some(method) = a_method() else { return };
    if child::part().is_some() {
        let region = blank(4 * MIB, config(method, MIB));
        fault_injection::break_rings().expect("broken");
        region.set_cap(MIB).expect("it rings");
        wait_for_the_end(&region);
        Memory::of(&region).read(MIB);
        return;
    }
    let status = child::run(test, "touch");
    assert_eq!(status.signal(), Some(fault_injection::SIGBUS), "{status}");
}

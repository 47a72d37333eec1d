//! Threads that write while blocks are paged in and out: no write is lost.

mod common;

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{KIB, MIB, Memory, blank, config, methods, over_file_by};
use terrace_region::{Method, RegionConfig};
use terrace_sys::size::to_usize;
use terrace_testkit::{Rng, needs, with_seed};

/// Duration of a race in seconds; `TERRACE_SOAK_SECONDS` overrides it.
fn seconds() -> u64 {
    std::env::var("TERRACE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Increments the words of one writer, one in every page, a few of them hot, while their blocks are
/// taken out.
fn count_up(memory: Memory, len: u64, writer: u64, seed: u64, stop: &AtomicBool, of: Method) {
    let mut rng = Rng::new(seed + writer);
    let mut words = vec![0_u64; to_usize(len / 4096)];
    let hot = |rng: &mut Rng| rng.below(4) * 997 % (len / 4096);
    while !stop.load(Ordering::Relaxed) {
        let is_hot = rng.below(4) > 0;
        let page = if is_hot { hot(&mut rng) } else { rng.below(len / 4096) };
        let word = memory.word(page * 4096 + 8 * writer);
        let last = &mut words[to_usize(page)];
        assert_eq!(word.load(Ordering::Relaxed), *last, "page {page}");
        *last += 1;
        word.store(*last, Ordering::Relaxed);
    }
    for (page, last) in (0..).zip(&words) {
        let word = memory.word(page * 4096 + 8 * writer);
        assert_eq!(word.load(Ordering::Relaxed), *last, "{of} page {page}");
    }
}

/// Each writer increments its own words all over the region, and finds each as it left it, while
/// other threads evict, flush, prefetch, pin and change the cap.
#[test]
fn a_hot_writer_loses_nothing() {
    const WRITERS: u64 = 3;
    // Bytes of a block, of the region, and of the smallest of four caps; minimum number of blocks
    // that are paged and written.
    let small = (64 << 10, 16 * MIB, MIB, 100);
    let huge = (2 << 20, 64 * MIB, 8 * MIB, 20);
    let pages = (4 << 10, 4 * MIB, 256 * KIB, 100);
    let cases = [
        (Method::Move, false, small),
        (Method::Copy, false, small),
        (Method::Move, true, small),
        (Method::Move, true, huge),
        (Method::Move, true, pages),
        (Method::Copy, true, pages),
    ];
    let methods = methods();
    let cases = cases.into_iter().filter(|(method, ..)| methods.contains(method));
    for (method, file, (block_bytes, len, cap, least)) in cases {
        with_seed(|seed| {
            let setting = RegionConfig { block_bytes, pagers: 2, ..config(method, 2 * cap) };
            let setting = RegionConfig { patience: Duration::from_secs(20), ..setting };
            let path = tempfile::NamedTempFile::new().expect("a file");
            let region = match file {
                true => over_file_by(path.path(), block_bytes, len, setting),
                false => blank(len, setting),
            };
            let memory = Memory::of(&region);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for writer in 0..WRITERS {
                    let stop = &stop;
                    scope.spawn(move || count_up(memory, len, writer, seed, stop, method));
                }
                let until = Instant::now() + Duration::from_secs(seconds());
                let mut rng = Rng::new(seed + 77);
                while Instant::now() < until {
                    let at = rng.below(len - 256 * KIB);
                    match rng.below(6) {
                        0 => region.evict(at, 64 * KIB).expect("evicted"),
                        1 => region.evict(0, 256 * KIB).expect("evicted"),
                        2 => region.flush(at, 128 * KIB).expect("flushed"),
                        3 => region.prefetch(at, 256 * KIB).expect("asked"),
                        4 => {
                            let pin = region.pin(at, 100 * KIB).expect("pinned");
                            let pages = pin.len() as u64 / 4096;
                            for page in 0..pages {
                                std::hint::black_box(memory.read(at + page * 4096));
                            }
                        }
                        _ => region.set_cap((1 + rng.below(4)) * cap).expect("resized"),
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            let stats = region.stats();
            let came = stats.returned + stats.fills;
            assert!(stats.write_backs > least && came > least, "{stats:?}");
        });
    }
}

/// Kernel compaction migrates pages while a pager moves them.
#[test]
fn what_the_kernel_moves_meanwhile_is_kept() {
    const LEN: u64 = 64 * MIB;
    const WRITERS: u64 = 4;
    let Some(compaction) = needs::compaction().filter(|_| needs::moves()) else { return };
    for block_bytes in [64 << 10, 2 << 20] {
        with_seed(|seed| {
            let method = Method::Move;
            let setting = RegionConfig { block_bytes, ..config(method, 16 * MIB) };
            let region = blank(LEN, setting);
            let memory = Memory::of(&region);
            let stop = AtomicBool::new(false);
            let compacted = std::thread::scope(|scope| {
                for writer in 0..WRITERS {
                    let stop = &stop;
                    scope.spawn(move || count_up(memory, LEN, writer, seed, stop, method));
                }
                let until = Instant::now() + Duration::from_secs(seconds());
                let mut compacted = Ok(());
                while Instant::now() < until && compacted.is_ok() {
                    compacted = compaction.write_all_at(b"1\n", 0);
                    std::thread::sleep(Duration::from_millis(10));
                }
                stop.store(true, Ordering::Relaxed);
                compacted
            });
            compacted.expect("compacted");
            assert!(region.stats().taken_out > 50, "{:?}", region.stats());
        });
    }
}

//! Threads that touch blocks of a region whose data do not fit its cap.
//!
//! `cargo run --release -p terrace-region --example touch -- [move|copy] [random|sequential]
//! [mutable|immutable] [SECONDS]`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_market::Ledger;
use terrace_region::{Advice, Contents, Method, Region, RegionConfig, Source};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::file::DirectFile;
use terrace_sys::process::cpu_time;
use terrace_sys::size::to_usize;
use terrace_tier::store::{EngineChoice, FileBlocks};

const DATA_BYTES: u64 = 512 << 20;
const CAP_BYTES: u64 = 64 << 20;
const THREADS: u64 = 2;

#[expect(clippy::print_stdout, reason = "a program that prints")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    let seconds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(5.0);
    let file = DirectFile::temporary(&std::env::temp_dir())?;
    let mut piece = AlignedBuffer::zeroed(1 << 20);
    piece.fill(3);
    for at in (0..DATA_BYTES).step_by(piece.len()) {
        file.write_at(at, &piece)?;
    }
    file.sync()?;
    let blocks = Arc::new(FileBlocks::open(file, DATA_BYTES, EngineChoice::Auto)?);
    let source = Source { blocks, offset: 0, len: DATA_BYTES, contents: Contents::Stored };
    let config = RegionConfig {
        cap_bytes: CAP_BYTES,
        method: Some(if has("copy") { Method::Copy } else { Method::Move }),
        ..RegionConfig::new("touch", Ledger::new(CAP_BYTES))
    };
    let region = Region::new(config, source)?;
    if has("immutable") {
        region.advise(0, DATA_BYTES, Advice::Immutable)?;
    }
    let block = region.block_bytes() as u64;
    let (stop, touched) = (AtomicBool::new(false), AtomicU64::new(0));
    let (began, busy) = (Instant::now(), cpu_time());
    let start = region.as_ptr() as usize;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stop, touched, words) = (&stop, &touched, &words);
            scope.spawn(move || {
                let sequential = words.iter().any(|word| word == "sequential");
                let mut state = 88_172_645_463_325_252 + thread;
                let mut at = thread * DATA_BYTES / THREADS;
                while !stop.load(Ordering::Relaxed) {
                    if sequential {
                        at = (at + 4096) % DATA_BYTES;
                    } else {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        at = state % (DATA_BYTES / block) * block;
                    }
                    let byte = (start + to_usize(at)) as *mut u8;
                    // SAFETY: a byte of the region, which outlives the threads.
                    let value = unsafe { AtomicU8::from_ptr(byte) }.load(Ordering::Relaxed);
                    assert_eq!(value, 3);
                    touched.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let took = began.elapsed().as_secs_f64();
    let stats = region.stats();
    let came = stats.fills as f64;
    let busy = (cpu_time() - busy).as_secs_f64();
    println!(
        "{:.0} touches/s, {:.0} blocks/s ({:.0} MiB/s), {:.1} us of processor a block; fault p50 \
         {} us, p99 {} us",
        touched.load(Ordering::Relaxed) as f64 / took,
        came / took,
        came * block as f64 / took / (1 << 20) as f64,
        busy * 1e6 / came,
        stats.fault.p50_ns / 1000,
        stats.fault.p99_ns / 1000,
    );
    println!("{stats:?}");
    Ok(())
}

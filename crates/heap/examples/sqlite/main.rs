//! Unmodified SQLite with all of its memory in a region: an in-memory database four times as large
//! as its share of DRAM.
//!
//!     cargo run --release -p terrace-heap --example sqlite
//!
//! `--plain` leaves SQLite its own allocator, `--rows N` sets the number of rows, and `--cap SIZE`
//! the memory that may be in DRAM.

mod engine;
mod memory;

use std::error::Error;
use std::time::Instant;

use terrace_sys::size::{format_bytes, parse_bytes};

/// Rows of the larger table, some 130 bytes each.
const ROWS: u64 = 400_000;
const CAP_BYTES: u64 = 16 << 20;

struct Options {
    plain: bool,
    rows: u64,
    cap_bytes: u64,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { plain: false, rows: ROWS, cap_bytes: CAP_BYTES };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        match argument.as_str() {
            "--plain" => options.plain = true,
            "--rows" => options.rows = value()?.parse()?,
            "--cap" => options.cap_bytes = parse_bytes(&value()?)?,
            _ => return Err(format!("`{argument}`: --plain, --rows N or --cap SIZE").into()),
        }
    }
    Ok(options)
}

#[expect(clippy::print_stdout, reason = "what an example shows")]
fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let heap = if options.plain { None } else { Some(memory::install(options.cap_bytes)?) };
    let start = Instant::now();
    for answer in engine::run(options.rows)? {
        println!("{answer}");
    }
    println!("{:.2?}", start.elapsed());
    if let Some(heap) = heap {
        let region = heap.region().map(|region| region.stats()).ok_or("a region")?;
        let stats = heap.stats()?;
        println!(
            "{} in the heap at most, {} in DRAM of {}; {} written, {} read, fault p50 {} us",
            format_bytes(stats.taken_bytes_max),
            format_bytes(region.resident_bytes),
            format_bytes(options.cap_bytes),
            format_bytes(region.written_bytes),
            format_bytes(region.read_bytes),
            region.fault.p50_ns / 1000,
        );
    }
    Ok(())
}

//! Counters in a file, behind ordinary addresses.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;

use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::{EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;

const FILE_BYTES: u64 = 256 << 20;
const DRAM_BYTES: u64 = 32 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let opened = DirectFile::open(file.path())?;
    let blocks = Arc::new(FileBlocks::open(opened, FILE_BYTES, EngineChoice::Auto)?);
    let source = Source { blocks, offset: 0, len: FILE_BYTES, contents: Contents::Blank };
    let config = RegionConfig::new("counters", Ledger::new(DRAM_BYTES));
    let region = Region::new(RegionConfig { block_bytes: 64 << 10, ..config }, source)?;

    // A thread that touches a block which is not in memory waits until the pager has read it.
    let mut at = 1_usize;
    for _ in 0..10_000 {
        at = (at * 48_271) % region.len();
        region.store(at, region.load(at).wrapping_add(1));
    }
    region.flush(0, FILE_BYTES)?;
    let stats = region.stats();
    println!("{} faults, {} MiB resident at the end", stats.faults, stats.resident_bytes >> 20);
    println!("{} MiB read, {} MiB written", stats.read_bytes >> 20, stats.written_bytes >> 20);
    Ok(())
}

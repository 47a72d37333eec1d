//! A vector larger than its DRAM.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;

use terrace_heap::allocator_api2::vec::Vec;
use terrace_heap::{Backing, Heap, HeapConfig};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::{EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;

const FILE_BYTES: u64 = 256 << 20;
const DRAM_BYTES: u64 = 16 << 20;
const NUMBERS: u64 = 8 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let opened = DirectFile::open(file.path())?;
    let blocks = Arc::new(FileBlocks::open(opened, FILE_BYTES, EngineChoice::Auto)?);
    let source = Source { blocks, offset: 0, len: FILE_BYTES, contents: Contents::Blank };
    let region = Region::new(RegionConfig::new("numbers", Ledger::new(DRAM_BYTES)), source)?;
    let region = Arc::new(region);
    let heap = Heap::new(HeapConfig::new("numbers", Backing::region(Arc::clone(&region))))?;

    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..NUMBERS);
    println!("{} numbers sum to {}", numbers.len(), numbers.iter().sum::<u64>());
    println!(
        "{} MiB of the heap in use, {} MiB of DRAM",
        heap.stats()?.large_bytes >> 20,
        region.stats().resident_bytes >> 20
    );
    Ok(())
}

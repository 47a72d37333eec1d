//! A hash map larger than its DRAM.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use terrace_heap::{Backing, Heap, HeapConfig};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::{EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;

const FILE_BYTES: u64 = 512 << 20;
const DRAM_BYTES: u64 = 32 << 20;
const KEYS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let opened = DirectFile::open(file.path())?;
    let blocks = Arc::new(FileBlocks::open(opened, FILE_BYTES, EngineChoice::Auto)?);
    let source = Source { blocks, offset: 0, len: FILE_BYTES, contents: Contents::Blank };
    let region = Region::new(RegionConfig::new("map", Ledger::new(DRAM_BYTES)), source)?;
    let region = Arc::new(region);
    let heap = Heap::new(HeapConfig::new("map", Backing::region(Arc::clone(&region))))?;

    let mut map = HashMap::with_hasher_in(DefaultHashBuilder::default(), &heap);
    for key in 0..KEYS {
        map.insert(key, [key; 8]);
    }
    let sum: u64 = (0..KEYS).step_by(1000).filter_map(|key| map.get(&key)).map(|it| it[7]).sum();
    println!("{} keys; every thousandth sums to {sum}", map.len());
    println!(
        "{} MiB of the heap in use, {} MiB of DRAM",
        heap.stats()?.large_bytes >> 20,
        region.stats().resident_bytes >> 20
    );
    Ok(())
}

//! A log of records in pages, four times as large as DRAM.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;

use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_store::Store;

const DRAM_BYTES: u64 = 16 << 20;
const PAGE_BYTES: usize = 64 << 10;
const PAGES: usize = 1024;
const RECORD_BYTES: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    // Pages that leave DRAM go to an unnamed file, which is gone when the program ends.
    let store = Store::temporary(&std::env::temp_dir(), Some(1 << 30))?;
    let mut config = PoolConfig::new("log", Ledger::new(DRAM_BYTES));
    config.store = Some(Arc::new(store));
    let pool = Pool::new(config)?;
    let space = pool.create_space("records", None)?;

    // A reference has the page's id and a hint of its frame; keep it instead of a pointer.
    let mut pages = Vec::new();
    for number in 0..PAGES {
        let (page, mut bytes) = space.allocate(PAGE_BYTES)?;
        for (at, record) in bytes.chunks_mut(RECORD_BYTES).enumerate() {
            record[..8].copy_from_slice(&(number * 1000 + at).to_le_bytes());
        }
        pages.push(page);
    }

    // A read fixes the page: it stays in memory until the guard is dropped.
    let mut sum = 0;
    for page in &mut pages {
        let bytes = space.read(page)?;
        for record in bytes.chunks(RECORD_BYTES) {
            sum += record.first_chunk::<8>().map_or(0, |number| u64::from_le_bytes(*number));
        }
    }
    println!("the numbers of {} MiB of records sum to {sum}", (PAGES * PAGE_BYTES) >> 20);
    println!("{} pages were read again from the store", pool.stats().loads);
    Ok(())
}

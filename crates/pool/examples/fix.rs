//! Measures the cost of a fix (by hint, by page table, optimistic), and of an eviction with its
//! load.
//!
//! `cargo run --release -p terrace-pool --example fix`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Instant;

use terrace_ledger::Ledger;
use terrace_pool::{PageRef, Pool, PoolConfig, PoolError, Space};
use terrace_store::{MemoryBlocks, Store};

const PAGES: usize = 100_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), PoolError> {
    let pool = Pool::new(PoolConfig::new("fix", Ledger::new(1 << 30)))?;
    let space = pool.create_space("pages", None)?;
    let mut pages = Vec::with_capacity(PAGES);
    for _ in 0..PAGES {
        pages.push(space.allocate(4096)?.0);
    }
    let fixes = (PAGES * ROUNDS) as f64;
    for threads in [1, 2] {
        let hinted = time(threads, || read_all(&space, pages.clone()));
        let bare: Vec<_> = pages.iter().map(|page| without_hint(*page)).collect();
        let bare = time(threads, || {
            for _ in 0..ROUNDS {
                read_once(&space, &mut bare.clone());
            }
        });
        let optimistic = time(threads, || read_optimistically(&space, pages.clone()));
        println!(
            "{threads} threads, ns a fix of 4 KiB in DRAM: by hint {:.1}, by page table {:.1}, \
             optimistic {:.1}",
            hinted / fixes * 1e9,
            bare / fixes * 1e9,
            optimistic / fixes * 1e9
        );
    }
    miss(4096)?;
    miss(256 << 10)
}

/// Returns the seconds that `work` takes when each of `threads` runs it in full.
fn time(threads: usize, work: impl Fn() + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&work);
        }
    });
    start.elapsed().as_secs_f64()
}

fn without_hint(page: PageRef) -> PageRef {
    PageRef::from_bits(page.to_bits() | 0xFFF_FFFF)
}

fn read_once(space: &Space, pages: &mut [PageRef]) {
    for page in pages {
        let byte = space.read(page).map(|bytes| bytes[0]);
        assert_eq!(byte.ok(), Some(0));
    }
}

fn read_all(space: &Space, mut pages: Vec<PageRef>) {
    for _ in 0..ROUNDS {
        read_once(space, &mut pages);
    }
}

fn read_optimistically(space: &Space, mut pages: Vec<PageRef>) {
    for _ in 0..ROUNDS {
        for page in &mut pages {
            let word = space.optimistic(page).map(|bytes| (bytes.u64_at(0), bytes.is_valid()));
            assert_eq!(word.ok(), Some((Some(0), true)));
        }
    }
}

/// Reads pages that are never in memory, from a store in memory: the pool's own share of a miss.
fn miss(len: usize) -> Result<(), PoolError> {
    let bytes = 256 << 20;
    let store = Store::open(Arc::new(MemoryBlocks::new(2 * bytes)), "memory", 2 * bytes)?;
    let mut config = PoolConfig::new("miss", Ledger::new(bytes / 4));
    config.store = Some(Arc::new(store));
    let pool = Pool::new(config)?;
    let space = pool.create_space("pages", None)?;
    let count = usize::try_from(bytes).unwrap_or(0) / len;
    let mut pages = Vec::with_capacity(count);
    for _ in 0..count {
        pages.push(space.allocate(len)?.0);
    }
    space.persist(&mut pages[..count / 2])?;
    let start = Instant::now();
    read_once(&space, &mut pages);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "1 thread, {} KiB pages, data 4x DRAM, store in memory: {:.2} us a miss, {:.0} MiB/s",
        len >> 10,
        seconds / count as f64 * 1e6,
        bytes as f64 / seconds / (1 << 20) as f64
    );
    Ok(())
}

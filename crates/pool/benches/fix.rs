//! Cost of a fix of a page in DRAM: by its hint, by the page table, and optimistic.

use divan::{Bencher, black_box};
use terrace_ledger::Ledger;
use terrace_pool::{PageRef, Pool, PoolConfig, Space};

/// Number of pages, few enough for the caches of a processor.
const PAGES: usize = 100;

fn main() {
    divan::main();
}

/// A pool with some pages, all in DRAM, and references to them.
fn pages() -> (Pool, Space, Vec<PageRef>) {
    let pool = Pool::new(PoolConfig::new("fix", Ledger::new(1 << 30))).expect("a pool");
    let space = pool.create_space("pages", None).expect("a space");
    let pages = (0..PAGES).map(|_| space.allocate(4096).expect("a page").0).collect();
    (pool, space, pages)
}

fn read_in_turn(bencher: Bencher<'_, '_>, reference: impl Fn(PageRef) -> PageRef) {
    let (_pool, space, mut pages) = pages();
    let mut at = 0;
    bencher.bench_local(|| {
        at = (at + 7) % PAGES;
        pages[at] = reference(pages[at]);
        space.read(&mut pages[at]).map(|bytes| bytes[0]).expect("in memory")
    });
}

#[divan::bench(sample_size = 1000)]
fn by_hint(bencher: Bencher<'_, '_>) {
    read_in_turn(bencher, |page| page);
}

#[divan::bench(sample_size = 1000)]
fn by_page_table(bencher: Bencher<'_, '_>) {
    // The low bits of a reference are its hint.
    read_in_turn(bencher, |page| PageRef::from_bits(page.to_bits() | 0xFFF_FFFF));
}

#[divan::bench(sample_size = 1000)]
fn optimistic(bencher: Bencher<'_, '_>) {
    let (_pool, space, mut pages) = pages();
    let mut at = 0;
    bencher.bench_local(|| {
        at = (at + 7) % PAGES;
        let page = space.optimistic(&mut pages[at]).expect("in memory");
        (black_box(page.u64_at(0)), page.is_valid())
    });
}

//! The pool over a failing store: errors are named, nothing is lost, and the pool keeps working.

use std::sync::Arc;
use std::time::Duration;

use super::common::{KIB, MIB, config, space, stamp};
use terrace_pool::{PageRef, Pool, PoolError, Space};
use terrace_store::{MemoryBlocks, Store, StoreError};
use terrace_testkit::{Fault, FaultyBlocks, Rng, Target, When, with_seed};

/// A pool of 1 MiB over a store of 16 MiB that fails on demand.
fn faulty_pool(seed: u64, store_bytes: u64) -> (Pool, Space, Arc<FaultyBlocks>) {
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(store_bytes)), seed));
    let store = Store::open(blocks.clone(), "faulty", store_bytes).expect("opens");
    let mut config = config(MIB, &[], Some(Arc::new(store)));
    config.patience = Duration::from_millis(500);
    let pool = Pool::new(config).expect("opens");
    let space = space(&pool);
    (pool, space, blocks)
}

/// Allocates more pages than fit DRAM, each filled with its stamp.
fn filled(space: &Space, count: usize) -> Vec<PageRef> {
    (0..count)
        .map(|n| {
            let (page, mut bytes) = space.allocate(64 * KIB).expect("room");
            bytes.fill(stamp(n, 0));
            page
        })
        .collect()
}

fn all_there(space: &Space, pages: &mut [PageRef]) {
    for (n, page) in pages.iter_mut().enumerate() {
        let bytes = space.read(page).expect("readable");
        assert!(bytes.iter().all(|byte| *byte == stamp(n, 0)), "page {n} lost its bytes");
    }
}

/// Returns the index of a page that is on the store only.
fn absent(space: &Space, pages: &[PageRef]) -> usize {
    let evicted = pages.iter().position(|page| space.tier_of(*page).is_none());
    evicted.expect("four times the DRAM does not fit it")
}

#[test]
fn a_read_error_is_one_page_s_and_passes() {
    let (_pool, space, blocks) = faulty_pool(1, 16 * MIB);
    let mut pages = filled(&space, 64);
    let n = absent(&space, &pages);
    blocks.inject(Target::Read, When::Always, Fault::Eio);
    let error = space.read(&mut pages[n]).expect_err("the device refuses");
    assert!(matches!(error, PoolError::Store(StoreError::Read { .. })), "{error}");
    let error = space.fetch(&pages[n..=n]).wait().expect_err("the device refuses");
    assert!(error.to_string().contains("faulty"), "the store is named: {error}");
    space.prefetch(&pages);
    blocks.heal();
    all_there(&space, &mut pages);
}

#[test]
fn a_flipped_bit_is_found() {
    let (_pool, space, blocks) = faulty_pool(2, 16 * MIB);
    let mut pages = filled(&space, 64);
    let n = absent(&space, &pages);
    blocks.inject(Target::Read, When::Nth(1), Fault::FlippedBit);
    let error = space.read(&mut pages[n]).expect_err("the bytes are damaged");
    assert!(matches!(error, PoolError::Store(StoreError::Corrupt { .. })), "{error}");
    all_there(&space, &mut pages);
}

#[test]
fn what_was_flushed_leaves_without_a_write() {
    let (pool, space, blocks) = faulty_pool(4, 16 * MIB);
    let mut pages = filled(&space, 12);
    let held = space.write(&mut pages[11]).expect("there");
    assert_eq!(pool.flush().expect("written"), 11 * 64 * KIB as u64, "all but the one held");
    drop(held);
    assert_eq!(pool.flush().expect("written"), 64 * KIB as u64);
    assert_eq!(pool.flush().expect("nothing to do"), 0);
    space.write(&mut pages[3]).expect("there").fill(stamp(3, 0));
    blocks.inject(Target::Write, When::Always, Fault::Eio);
    let error = pool.flush().expect_err("the device refuses");
    assert!(matches!(error, PoolError::Store(StoreError::Write { .. })), "{error}");
    pool.release_clean(MIB);
    let there: Vec<usize> = (0..12).filter(|n| space.tier_of(pages[*n]).is_some()).collect();
    assert_eq!(there, [3], "only what is not written stays");
    blocks.heal();
    all_there(&space, &mut pages);
}

#[test]
fn dirty_pages_stay_in_memory_when_the_store_refuses_them() {
    let (pool, space, blocks) = faulty_pool(3, 16 * MIB);
    blocks.inject(Target::Write, When::Always, Fault::Eio);
    let mut pages = Vec::new();
    let error = loop {
        match space.allocate(64 * KIB) {
            Ok((page, mut bytes)) => {
                bytes.fill(stamp(pages.len(), 0));
                pages.push(page);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PoolError::Store(_)), "the cause is the store: {error}");
    // One page more if the background worker was writing a page at that moment, since the write
    // might have succeeded.
    assert!((14..=15).contains(&pages.len()), "all of DRAM but what reads need: {}", pages.len());
    all_there(&space, &mut pages);
    assert!(pool.stats().write_failures > 0);
    for page in pages.drain(..8) {
        space.free(page).expect("its own page");
    }
    assert!(space.allocate(64 * KIB).is_ok(), "freed pages make room again");
}

#[test]
fn stored_pages_can_be_read_while_the_store_refuses_new_ones() {
    let (_pool, space, blocks) = faulty_pool(6, 16 * MIB);
    let mut pages = filled(&space, 64);
    blocks.inject(Target::Write, When::Always, Fault::Eio);
    let error = loop {
        match space.allocate(64 * KIB) {
            Ok((page, mut bytes)) => {
                bytes.fill(stamp(pages.len(), 0));
                pages.push(page);
            }
            Err(error) => break error,
        }
        assert!(pages.len() < 64 + 16, "more new pages than DRAM has room for");
    };
    assert!(matches!(error, PoolError::Store(_)), "the cause is the store: {error}");
    all_there(&space, &mut pages);
}

#[test]
fn a_full_store_is_an_error_until_there_is_room() {
    let (_pool, space, _blocks) = faulty_pool(4, 2 * MIB);
    let mut pages = Vec::new();
    let error = loop {
        match space.allocate(64 * KIB) {
            Ok((page, mut bytes)) => {
                bytes.fill(stamp(pages.len(), 0));
                pages.push(page);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PoolError::Store(StoreError::Full { .. })), "{error}");
    assert!(pages.len() >= 40, "{} of DRAM and store together", pages.len());
    all_there(&space, &mut pages);
    for page in pages.drain(20..) {
        space.free(page).expect("its own page");
    }
    let more = filled(&space, 8);
    all_there(&space, &mut pages);
    more.into_iter().for_each(|page| space.free(page).expect("its own page"));
}

#[test]
fn persist_fails_whole() {
    let (pool, space, blocks) = faulty_pool(5, 16 * MIB);
    let mut pages = filled(&space, 8);
    blocks.inject(Target::Write, When::Nth(5), Fault::Short);
    let error = space.persist(&mut pages).expect_err("one write fails");
    assert!(matches!(error, PoolError::Store(_)), "{error}");
    for page in &mut pages {
        assert!(space.write(page).is_ok(), "no page has become durable");
    }
    pages.into_iter().for_each(|page| space.free(page).expect("its own page"));
    super::common::comes_to_hold(&pool, 0, 0);
}

/// Random reads and writes over a device with transient faults: every read that succeeds is right.
#[test]
fn transient_faults_lose_nothing() {
    with_seed(|seed| {
        let (_pool, space, blocks) = faulty_pool(seed, 16 * MIB);
        let mut pages = filled(&space, 64);
        blocks.inject(Target::Read, When::OneIn(8), Fault::Eio);
        blocks.inject(Target::Read, When::OneIn(8), Fault::FlippedBit);
        blocks.inject(Target::Read, When::OneIn(8), Fault::Short);
        let mut rng = Rng::new(seed);
        let mut failures = 0;
        for _ in 0..2000 {
            let n = rng.index(pages.len());
            match space.read(&mut pages[n]) {
                Ok(bytes) => assert!(bytes.iter().all(|byte| *byte == stamp(n, 0))),
                Err(PoolError::Store(_)) => failures += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        assert!(failures > 0, "seed {seed}: no fault struck");
        blocks.heal();
        all_there(&space, &mut pages);
    });
}

//! Pools for tests.
#![allow(dead_code, reason = "each test uses its own part")]

use std::sync::Arc;
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig, Space};
use terrace_store::{MemoryBlocks, Store};
use terrace_tier::MemoryTier;

pub const KIB: usize = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// A store of `bytes` in memory.
pub fn store(bytes: u64) -> Arc<Store> {
    let blocks = Arc::new(MemoryBlocks::new(bytes));
    Arc::new(Store::open(blocks, "test store", bytes).expect("a store over memory opens"))
}

/// The configuration of a pool of `dram` bytes over the lower tiers and a store.
pub fn config(dram: u64, lower: &[u64], store: Option<Arc<Store>>) -> PoolConfig {
    let mut config = PoolConfig::new("test", Ledger::new(dram));
    config.memory.extend(lower.iter().map(|bytes| MemoryTier::emulated(*bytes, 0)));
    config.placement = crate::PLACEMENT;
    config.store = store;
    config.patience = Duration::from_secs(5);
    config
}

pub fn pool(dram: u64, lower: &[u64]) -> Pool {
    Pool::new(config(dram, lower, Some(store(64 * MIB)))).expect("the pool opens")
}

pub fn space(pool: &Pool) -> Space {
    pool.create_space("owner", None).expect("there is room for a space")
}

/// The byte that page `n` of a test is filled with in round `round`.
pub fn stamp(n: usize, round: usize) -> u8 {
    u8::try_from((n * 31 + round * 7 + 1) % 251).expect("below 251")
}

/// Bytes of pages in all memory tiers.
pub fn page_bytes(pool: &Pool) -> u64 {
    pool.stats().tiers.iter().map(|tier| tier.page_bytes).sum()
}

/// Asserts that the pool comes to hold exactly this many bytes of pages and extents.
///
/// A page that is being moved when it is freed is freed after the move.
pub fn comes_to_hold(pool: &Pool, pages: usize, extents: usize) {
    let held = || (page_bytes(pool), pool.store().map_or(0, |store| store.stats().used_bytes));
    let wanted = (pages as u64, extents as u64);
    let end = std::time::Instant::now() + Duration::from_secs(5);
    while held() != wanted && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(held(), wanted, "bytes of pages and of extents");
}

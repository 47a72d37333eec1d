//! Pools for tests.
#![allow(dead_code, reason = "each test uses its own part")]

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use terrace_index::{BTree, HashConfig, HashIndex, SingleLatch, TreeConfig, Unhinted};
use terrace_ledger::Ledger;
use terrace_pool::{Pages, Pool, PoolConfig, Space};
use terrace_store::{MemoryBlocks, Store};
use terrace_testkit::{FaultyBlocks, Rng};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// Creates a pool of `dram` bytes over a store with injected faults.
pub fn faulty_pool(dram: u64, seed: u64) -> (Pool, Arc<FaultyBlocks>) {
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(64 * MIB)), seed));
    let store = Store::open(blocks.clone(), "test store", 64 * MIB).expect("a store opens");
    let mut config = PoolConfig::new("test", Ledger::new(dram));
    config.store = Some(Arc::new(store));
    config.patience = Duration::from_secs(20);
    (Pool::new(config).expect("the pool opens"), blocks)
}

pub fn pool(dram: u64) -> Pool {
    faulty_pool(dram, 0).0
}

pub fn space(pool: &Pool) -> Space {
    pool.create_space("index", None).expect("there is room for a space")
}

pub fn index<P: Pages>(pages: P, buckets: usize, page_bytes: usize) -> HashIndex<P> {
    HashIndex::new(pages, &HashConfig { buckets, page_bytes }).expect("a good configuration")
}

pub fn unhinted(pool: &Pool) -> Unhinted<Space> {
    Unhinted(space(pool))
}

pub fn single_latch(pool: &Pool) -> SingleLatch<Space> {
    SingleLatch::new(space(pool))
}

pub fn tree<P: Pages>(pages: P) -> BTree<P> {
    BTree::new(pages, &TreeConfig { page_bytes: 4096 }).expect("a page")
}

/// Generates operations with store failures among them. `fault` makes an operation that fails one
/// in the given number of transfers, or none.
pub fn with_faults<Op: Clone + Debug>(
    ops: impl Strategy<Value = Vec<Op>>,
    ops_max: usize,
    fault: fn(Option<u64>) -> Op,
) -> impl Strategy<Value = Vec<Op>> {
    let one_in = prop_oneof![1 => (1..4_u64).prop_map(Some), 2 => Just(None)];
    let faults = proptest::collection::vec((0..ops_max, one_in), 0..30);
    (ops, faults).prop_map(move |(mut ops, faults)| {
        for (at, one_in) in faults {
            ops.insert(at % (ops.len() + 1), fault(one_in));
        }
        ops
    })
}

/// A self-checking value: a random byte, repeated 20 more times than its value.
pub fn value_of(rng: &mut Rng) -> Vec<u8> {
    let byte = u8::try_from(rng.below(200)).expect("below 200");
    vec![byte; 20 + usize::from(byte)]
}

pub fn is_whole(value: &[u8]) -> bool {
    value.first().is_some_and(|first| {
        value.len() == 20 + usize::from(*first) && value.iter().all(|byte| byte == first)
    })
}

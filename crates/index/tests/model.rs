//! Model test of the hash index against a map: random operations, evictions, store failures.

mod common;

use std::collections::HashMap;

use common::{KIB, faulty_pool, index, pool, single_latch, space, unhinted, with_faults};
use proptest::prelude::*;
use terrace_index::{HashConfig, HashIndex, IndexError};
use terrace_pool::{Pages, Pool, PoolError, Space};
use terrace_testkit::{Fault, FaultyBlocks, Target, When};

#[derive(Clone, Debug)]
enum Op {
    Insert { key: u16, len: usize },
    Put { key: u16, len: usize },
    Remove { key: u16 },
    Get { key: u16 },
    Evict,
    Break { one_in: u64 },
    Heal,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..300_u16;
    let len = prop_oneof![4 => 0..120_usize, 1 => 0..1500_usize];
    let op = prop_oneof![
        6 => (key.clone(), len.clone()).prop_map(|(key, len)| Op::Insert { key, len }),
        4 => (key.clone(), len).prop_map(|(key, len)| Op::Put { key, len }),
        4 => key.clone().prop_map(|key| Op::Remove { key }),
        4 => key.prop_map(|key| Op::Get { key }),
        1 => Just(Op::Evict),
    ];
    proptest::collection::vec(op, 0..600)
}

/// Operations as in `ops`, with injected failures of reads from the store.
fn faulty_ops() -> impl Strategy<Value = Vec<Op>> {
    with_faults(ops(), 600, |one_in| match one_in {
        Some(one_in) => Op::Break { one_in },
        None => Op::Heal,
    })
}

/// Keys of 2 to 102 bytes.
fn key_of(number: u16) -> Vec<u8> {
    let mut key = number.to_le_bytes().to_vec();
    key.resize(2 + usize::from(number % 101), 7);
    key
}

fn value_of(number: u16, len: usize, step: usize) -> Vec<u8> {
    let byte = |at: usize| (at + step * 3 + usize::from(number)) % 251;
    (0..len).map(|at| u8::try_from(byte(at)).expect("below 251")).collect()
}

/// Unwraps a result. With a faulty store an operation may fail, and must then change nothing.
fn answer<T>(broken: bool, result: Result<T, IndexError>) -> Option<T> {
    match result {
        Ok(answer) => Some(answer),
        Err(IndexError::Pool(PoolError::Store(_))) if broken => None,
        Err(error) => panic!("{error}"),
    }
}

fn run<P: Pages>(index: &HashIndex<P>, pool: &Pool, blocks: Option<&FaultyBlocks>, ops: &[Op]) {
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut broken = false;
    for (step, op) in ops.iter().enumerate() {
        match op {
            Op::Insert { key, len } => {
                let (key, value) = (key_of(*key), value_of(*key, *len, step));
                if let Some(added) = answer(broken, index.insert(&key, &value)) {
                    assert_eq!(added, !model.contains_key(&key));
                    model.entry(key).or_insert(value);
                }
            }
            Op::Put { key, len } => {
                let (key, value) = (key_of(*key), value_of(*key, *len, step));
                if let Some(is_new) = answer(broken, index.put(&key, &value)) {
                    assert_eq!(is_new, model.insert(key, value).is_none());
                }
            }
            Op::Remove { key } => {
                let key = key_of(*key);
                if let Some(removed) = answer(broken, index.remove(&key)) {
                    assert_eq!(removed, model.remove(&key).is_some());
                }
            }
            Op::Get { key } => {
                let key = key_of(*key);
                if let Some(value) = answer(broken, index.get(&key)) {
                    assert_eq!(value.as_ref(), model.get(&key));
                }
            }
            Op::Evict => drop(pool.release(u64::MAX)),
            Op::Break { one_in } => {
                broken = true;
                if let Some(blocks) = blocks {
                    blocks.heal();
                    blocks.inject(Target::Read, When::OneIn(*one_in), Fault::Eio);
                }
            }
            Op::Heal => {
                broken = false;
                blocks.iter().for_each(|blocks| blocks.heal());
            }
        }
    }
    blocks.iter().for_each(|blocks| blocks.heal());
    agrees(index, &model);
}

fn agrees<P: Pages>(index: &HashIndex<P>, model: &HashMap<Vec<u8>, Vec<u8>>) {
    assert_eq!(index.len(), model.len() as u64);
    let mut seen = HashMap::new();
    for pair in index.iter() {
        let (key, value) = pair.expect("read");
        assert!(seen.insert(key, value).is_none(), "a key was seen twice");
    }
    for (key, value) in model {
        assert_eq!(seen.get(key), Some(value), "key {key:?}");
    }
    assert_eq!(index.shape().expect("read").records, model.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn with_hints_it_is_a_map(ops in ops(), buckets in 1..6_usize) {
        let pool = pool(48 * KIB);
        run(&index(space(&pool), buckets, 4096), &pool, None, &ops);
    }

    #[test]
    fn without_hints_it_is_a_map(ops in ops(), buckets in 1..6_usize) {
        let pool = pool(48 * KIB);
        run(&index(unhinted(&pool), buckets, 4096), &pool, None, &ops);
    }

    #[test]
    fn over_a_single_latch_it_is_a_map(ops in ops(), buckets in 1..6_usize) {
        let pool = pool(48 * KIB);
        run(&index(single_latch(&pool), buckets, 4096), &pool, None, &ops);
    }

    #[test]
    fn what_fails_changes_nothing(ops in faulty_ops(), seed: u64) {
        let (pool, blocks) = faulty_pool(32 * KIB, seed);
        run(&index(space(&pool), 2, 4096), &pool, Some(&blocks), &ops);
    }
}

#[test]
fn impossible_indexes_and_pairs_are_refused() {
    let pool = pool(64 * KIB);
    for (buckets, page_bytes) in [(0, 4096), (usize::MAX, 4096), (1, 0), (1, usize::MAX)] {
        let config = HashConfig { buckets, page_bytes };
        let error = HashIndex::new(space(&pool), &config).expect_err("refused");
        assert!(matches!(error, IndexError::Config(_)), "{error}");
    }
    let index = index(space(&pool), 4, 4096);
    let limit = index.pair_limit();
    assert!(index.insert(b"k", &vec![1; limit - 1]).expect("fits"));
    for change in [HashIndex::insert, HashIndex::put] {
        let error: IndexError = change(&index, b"k", &vec![1; limit]).expect_err("too large");
        assert!(error.to_string().contains(&limit.to_string()), "{error}");
    }
    assert_eq!(index.get(b"k").expect("read").map(|value| value.len()), Some(limit - 1));
}

#[test]
fn a_pool_without_room_fails_the_insertion_and_nothing_else() {
    let mut config = terrace_pool::PoolConfig::new("small", terrace_ledger::Ledger::new(64 * KIB));
    config.patience = std::time::Duration::from_millis(20);
    let pool = Pool::new(config).expect("opens");
    let index = index(space(&pool), 2, 4096);
    let mut held = 0_u16;
    let error = loop {
        match index.insert(&key_of(held), &[3; 100]) {
            Ok(added) => assert!(added),
            Err(error) => break error,
        }
        held += 1;
    };
    assert!(matches!(error, IndexError::Pool(_)), "{error}");
    assert!(held > 200, "{held} records in 64 KiB");
    assert_eq!(index.len(), u64::from(held));
    for number in 0..held {
        assert!(index.contains(&key_of(number)).expect("read"));
        assert!(index.remove(&key_of(number)).expect("removed"));
    }
    let shape = index.shape().expect("read");
    assert_eq!((shape.records, shape.pages), (0, 2), "empty pages behind the first are freed");
    assert!(index.insert(&key_of(held), &[3; 100]).expect("room again"));
}

/// Fixes that followed a hint, and fixes that went through the page table.
fn fixes(pool: &Pool) -> (u64, u64) {
    let stats = pool.stats();
    (stats.hint_hits, stats.look_ups)
}

fn look_up_all(index: &HashIndex<Space>, count: u16) {
    for number in 0..count {
        assert!(index.contains(&key_of(number)).expect("read"));
    }
}

#[test]
fn hints_go_wrong_by_eviction_and_are_repaired_in_place() {
    let pool = pool(512 * KIB);
    let index = index(space(&pool), 1, 4096);
    for number in 0..600 {
        assert!(index.insert(&key_of(number), &[1; 50]).expect("inserted"));
    }
    let pages = index.shape().expect("read").pages;
    assert!(pages > 10, "{pages}");
    let before = fixes(&pool);
    look_up_all(&index, 600);
    let after = fixes(&pool);
    assert_eq!(after.1, before.1, "no look-up in the page table");
    pool.release(u64::MAX);
    // Other frames than before: the first pages of the chain go where the last ones were.
    let mut taken = Vec::new();
    let other = pool.create_space("other", None).expect("room");
    for _ in 0..5 {
        taken.push(other.allocate(4096).expect("room").0);
    }
    let written = pool.stats().written_bytes;
    look_up_all(&index, 600);
    assert!(fixes(&pool).1 > after.1, "evicted pages are looked up");
    let repaired = fixes(&pool);
    look_up_all(&index, 600);
    assert_eq!(fixes(&pool).1, repaired.1, "and their references repaired");
    pool.release_clean(u64::MAX);
    assert_eq!(pool.stats().written_bytes, written, "a repaired page is not written for that");
    look_up_all(&index, 600);
}

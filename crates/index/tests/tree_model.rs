//! Model test of the tree against a map: random operations, evictions, store failures.

mod common;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use common::{KIB, faulty_pool, pool, space, tree, unhinted, with_faults};
use proptest::prelude::*;
use terrace_index::{BTree, IndexError};
use terrace_pool::{Pages, Pool, PoolError};
use terrace_testkit::{Fault, FaultyBlocks, Target, When};

#[derive(Clone, Debug)]
enum Op {
    Insert { key: u16, len: usize },
    Put { key: u16, len: usize },
    Update { key: u16, byte: u8 },
    Remove { key: u16 },
    Get { key: u16 },
    Batch { key: u16, keys: u16 },
    Scan { key: u16, kind: u8, records: usize },
    Run { key: u16, keys: u16, len: usize },
    RemoveRun { key: u16, keys: u16 },
    Evict,
    Break { one_in: u64 },
    Heal,
}

const KEYS: u16 = 600;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..KEYS;
    let len = prop_oneof![6 => 0..120_usize, 1 => 0..1500_usize, 1 => Just(2500_usize)];
    let op = prop_oneof![
        6 => (key.clone(), len.clone()).prop_map(|(key, len)| Op::Insert { key, len }),
        4 => (key.clone(), len).prop_map(|(key, len)| Op::Put { key, len }),
        2 => (key.clone(), any::<u8>()).prop_map(|(key, byte)| Op::Update { key, byte }),
        5 => key.clone().prop_map(|key| Op::Remove { key }),
        3 => key.clone().prop_map(|key| Op::Get { key }),
        1 => (key.clone(), 1..80_u16).prop_map(|(key, keys)| Op::Batch { key, keys }),
        3 => (key.clone(), 0..6_u8, 0..60_usize)
            .prop_map(|(key, kind, records)| Op::Scan { key, kind, records }),
        2 => (key.clone(), 1..80_u16, 0..200_usize)
            .prop_map(|(key, keys, len)| Op::Run { key, keys, len }),
        2 => (key, 1..120_u16).prop_map(|(key, keys)| Op::RemoveRun { key, keys }),
        1 => Just(Op::Evict),
    ];
    proptest::collection::vec(op, 0..300)
}

/// Operations as in `ops`, with injected failures of reads and writes of the store.
fn faulty_ops() -> impl Strategy<Value = Vec<Op>> {
    with_faults(ops(), 300, |one_in| match one_in {
        Some(one_in) => Op::Break { one_in },
        None => Op::Heal,
    })
}

/// Keys of 0 to 300 bytes: many share a prefix, and some are prefixes of others.
fn key_of(number: u16) -> Vec<u8> {
    match number % 5 {
        _ if number == 0 => Vec::new(),
        0 => vec![0; usize::from(number) / 2],
        1 => [b"a long prefix that many share ".as_slice(), &number.to_be_bytes()].concat(),
        2 => {
            [[7; 3].as_slice(), &number.to_be_bytes(), &[0; 4][..usize::from(number % 4)]].concat()
        }
        3 => number.to_le_bytes().to_vec(),
        _ => (u64::from(number) << 20).to_be_bytes().to_vec(),
    }
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

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn scan<P: Pages>(
    tree: &BTree<P>,
    from: Bound<&[u8]>,
    back: bool,
    records: usize,
) -> Result<Records, IndexError> {
    let mut seen = Vec::new();
    let see = |key: &[u8], value: &[u8]| {
        if seen.len() == records {
            return ControlFlow::Break(());
        }
        seen.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    if back {
        tree.scan_back(from, see)?
    } else {
        tree.scan(from, see)?
    };
    Ok(seen)
}

fn expected(model: &Model, from: Bound<&[u8]>, back: bool, records: usize) -> Records {
    let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    if back {
        model.range::<[u8], _>((Bound::Unbounded, from)).rev().take(records).map(owned).collect()
    } else {
        model.range::<[u8], _>((from, Bound::Unbounded)).take(records).map(owned).collect()
    }
}

struct Run<'r, P: Pages> {
    tree: &'r BTree<P>,
    model: Model,
    broken: bool,
}

impl<P: Pages> Run<'_, P> {
    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if let Some(added) = answer(self.broken, self.tree.insert(&key, &value)) {
            assert_eq!(added, !self.model.contains_key(&key));
            self.model.entry(key).or_insert(value);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(removed) = answer(self.broken, self.tree.remove(key)) {
            assert_eq!(removed, self.model.remove(key).is_some());
        }
    }

    fn update(&mut self, key: &[u8], byte: u8) {
        let change = |value: &mut [u8]| {
            value.iter_mut().for_each(|old| *old ^= byte);
            value.len()
        };
        if let Some(updated) = answer(self.broken, self.tree.update(key, change)) {
            assert_eq!(updated, self.model.get_mut(key).map(|value| change(value)));
        }
    }

    fn batch(&self, first: u16, keys: u16) {
        let keys: Vec<_> = (first..first + keys).map(|n| key_of(n * 7 % KEYS)).collect();
        let mut seen = vec![0; keys.len()];
        let done = self.tree.get_batch(&keys, |index, value| {
            seen[index] += 1;
            assert_eq!(value, self.model.get(&keys[index]).map(Vec::as_slice));
        });
        if answer(self.broken, done).is_some() {
            assert!(seen.iter().all(|times| *times == 1), "{seen:?}");
        }
    }

    fn scan(&self, key: &[u8], kind: u8, records: usize) {
        let from = [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        let (from, back) = (from[usize::from(kind % 3)], kind >= 3);
        if let Some(seen) = answer(self.broken, scan(self.tree, from, back, records)) {
            assert_eq!(seen, expected(&self.model, from, back, records));
        }
    }

    fn apply(&mut self, step: usize, op: &Op, pool: &Pool, blocks: Option<&FaultyBlocks>) {
        match *op {
            Op::Insert { key, len } => self.insert(key_of(key), value_of(key, len, step)),
            Op::Put { key, len } => {
                let (key, value) = (key_of(key), value_of(key, len, step));
                if let Some(is_new) = answer(self.broken, self.tree.put(&key, &value)) {
                    assert_eq!(is_new, self.model.insert(key, value).is_none());
                }
            }
            Op::Update { key, byte } => self.update(&key_of(key), byte),
            Op::Remove { key } => self.remove(&key_of(key)),
            Op::Get { key } => {
                let key = key_of(key);
                if let Some(value) = answer(self.broken, self.tree.get(&key)) {
                    assert_eq!(value.as_ref(), self.model.get(&key));
                }
            }
            Op::Batch { key, keys } => self.batch(key, keys),
            Op::Scan { key, kind, records } => self.scan(&key_of(key), kind, records),
            Op::Run { key, keys, len } => {
                (key..KEYS.min(key + keys)).for_each(|n| self.insert(key_of(n), vec![1; len]));
            }
            Op::RemoveRun { key, keys } => {
                (key..KEYS.min(key + keys)).for_each(|n| self.remove(&key_of(n)));
            }
            Op::Evict => drop(pool.release(u64::MAX)),
            Op::Break { one_in } => {
                self.broken = true;
                if let Some(blocks) = blocks {
                    blocks.heal();
                    blocks.inject(Target::Read, When::OneIn(one_in), Fault::Eio);
                }
            }
            Op::Heal => {
                self.broken = false;
                blocks.iter().for_each(|blocks| blocks.heal());
            }
        }
    }
}

fn run<P: Pages>(tree: &BTree<P>, pool: &Pool, blocks: Option<&FaultyBlocks>, ops: &[Op]) {
    let mut run = Run { tree, model: Model::new(), broken: false };
    for (step, op) in ops.iter().enumerate() {
        run.apply(step, op, pool, blocks);
    }
    blocks.iter().for_each(|blocks| blocks.heal());
    let all = scan(tree, Bound::Unbounded, false, usize::MAX).expect("done");
    assert_eq!(all, run.model.clone().into_iter().collect::<Vec<_>>());
    let shape = tree.verify().expect("sound");
    assert_eq!((shape.records, tree.len()), (all.len() as u64, all.len() as u64));
    let keys: Vec<_> = run.model.keys().cloned().collect();
    run.broken = false;
    keys.iter().for_each(|key| run.remove(key));
    let shape = tree.verify().expect("sound");
    assert_eq!((shape.records, tree.len(), tree.is_empty()), (0, 0, true));
    if blocks.is_none() {
        assert_eq!((shape.leaves, shape.inner_pages), (1, 0), "{shape:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn a_tree_in_little_memory_is_a_map(ops in ops()) {
        let pool = pool(64 * KIB);
        run(&tree(space(&pool)), &pool, None, &ops);
    }

    #[test]
    fn a_tree_without_hints_is_a_map(ops in ops()) {
        let pool = pool(64 * KIB);
        run(&tree(unhinted(&pool)), &pool, None, &ops);
    }

    #[test]
    fn what_a_failing_store_refuses_did_not_happen(ops in faulty_ops(), seed in any::<u64>()) {
        let (pool, blocks) = faulty_pool(64 * KIB, seed);
        run(&tree(space(&pool)), &pool, Some(&blocks), &ops);
    }
}

//! Many threads on one tree that is larger than its pool.

mod common;

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{KIB, MIB, is_whole, pool, single_latch, space, tree, unhinted, value_of};
use terrace_index::BTree;
use terrace_pool::{Pages, Pool};
use terrace_testkit::{Rng, soak_time, with_seed};

const WRITERS: u64 = 3;
const KEYS: u64 = 400;

/// Keys of the writers interleave, so that all change the same leaves.
fn key_of(writer: u64, number: u64) -> Vec<u8> {
    let mut key = b"prefix".to_vec();
    key.extend_from_slice(&(number * WRITERS + writer).to_be_bytes());
    key
}

struct Churn<'c, P: Pages> {
    tree: &'c BTree<P>,
    pool: &'c Pool,
    stop: AtomicBool,
    seen: AtomicU64,
}

impl<P: Pages> Churn<'_, P> {
    fn is_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Changes the writer's keys until the run stops. Returns the number of keys at the end.
    fn write(&self, writer: u64, seed: u64) -> u64 {
        let mut rng = Rng::new(seed ^ writer);
        let mut mine: Vec<Option<Vec<u8>>> = vec![None; usize::try_from(KEYS).expect("small")];
        mine[0] = Some(vec![5; 25]);
        while self.is_on() {
            // Runs of one kind, so that leaves fill up and empty.
            let (kind, first) = (rng.below(5), rng.index(mine.len()));
            for number in first..mine.len().min(first + rng.index(60)) {
                self.change(writer, number, kind, &mut rng, &mut mine[number]);
            }
        }
        for (number, value) in mine.iter().enumerate() {
            assert_eq!(&self.tree.get(&key_of(writer, number as u64)).expect("done"), value);
        }
        mine.iter().flatten().count() as u64
    }

    fn change(
        &self,
        writer: u64,
        number: usize,
        kind: u64,
        rng: &mut Rng,
        mine: &mut Option<Vec<u8>>,
    ) {
        let (key, value) = (key_of(writer, number as u64), value_of(rng));
        match kind {
            0 if number > 0 => {
                assert_eq!(self.tree.remove(&key).expect("done"), mine.take().is_some());
            }
            1 => {
                assert_eq!(self.tree.insert(&key, &value).expect("done"), mine.is_none());
                mine.get_or_insert(value);
            }
            2 => assert_eq!(self.tree.get(&key).expect("done"), *mine),
            3 => {
                let updated = self.tree.update(&key, |value| value.len()).expect("done");
                assert_eq!(updated, mine.as_ref().map(Vec::len));
            }
            _ => {
                let is_new = self.tree.put(&key, &value).expect("done");
                assert_eq!(is_new, mine.replace(value).is_none());
            }
        }
    }

    fn read(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        while self.is_on() {
            let (writer, number) = (rng.below(WRITERS), rng.below(KEYS));
            let number = if rng.one_in(3) { 0 } else { number };
            let seen = self.tree.get_with(&key_of(writer, number), is_whole).expect("done");
            assert!(seen.unwrap_or(number != 0), "key {number} of {writer}: {seen:?}");
            self.seen.fetch_add(1, Ordering::Relaxed);
            if rng.one_in(2000) {
                self.pool.release(64 * KIB);
            }
        }
    }

    /// Scans in both directions: keys in order, values intact, the first key of each writer
    /// present.
    fn scan(&self) {
        let first: Vec<_> = (0..WRITERS).map(|writer| key_of(writer, 0)).collect();
        for turn in 0.. {
            if !self.is_on() {
                return;
            }
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let see = |key: &[u8], value: &[u8]| {
                assert!(is_whole(value));
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            };
            if turn % 2 == 0 {
                self.tree.scan(Bound::Unbounded, see).expect("done");
            } else {
                self.tree.scan_back(Bound::Unbounded, see).expect("done");
                keys.reverse();
            }
            assert!(keys.is_sorted_by(|a, b| a < b), "out of order");
            assert_eq!(keys[..first.len()], first, "keys that are always there");
        }
    }

    fn batches(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        while self.is_on() {
            let keys: Vec<_> =
                (0..50).map(|_| key_of(rng.below(WRITERS), rng.below(KEYS))).collect();
            let see = |_, value: Option<&[u8]>| assert!(value.is_none_or(is_whole));
            self.tree.get_batch(&keys, see).expect("done");
        }
    }
}

/// Each writer owns its keys, one of which is always present; readers must get intact values and
/// always find that one.
fn churn<P: Pages>(tree: &BTree<P>, pool: &Pool, seed: u64) {
    for writer in 0..WRITERS {
        assert!(tree.insert(&key_of(writer, 0), &[5; 25]).expect("inserted"));
    }
    let churn = Churn { tree, pool, stop: AtomicBool::new(false), seen: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        let churn = &churn;
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || churn.write(writer, seed))).collect();
        scope.spawn(move || churn.read(seed ^ 100));
        scope.spawn(move || churn.scan());
        scope.spawn(move || churn.batches(seed ^ 200));
        let end = Instant::now() + soak_time();
        while Instant::now() < end && writers.iter().all(|writer| !writer.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        churn.stop.store(true, Ordering::Relaxed);
        let kept: u64 = writers.into_iter().map(|writer| writer.join().expect("writer")).sum();
        assert_eq!(tree.len(), kept);
    });
    assert!(churn.seen.into_inner() > 0);
    assert_eq!(tree.verify().expect("sound").records, tree.len());
}

#[test]
fn threads_share_a_tree_with_hints() {
    with_seed(|seed| {
        let pool = pool(256 * KIB);
        churn(&tree(space(&pool)), &pool, seed);
    });
}

#[test]
fn threads_share_a_tree_that_memory_has_room_for() {
    with_seed(|seed| {
        let pool = pool(16 * MIB);
        churn(&tree(space(&pool)), &pool, seed);
    });
}

#[test]
fn threads_share_a_tree_without_hints() {
    with_seed(|seed| {
        let pool = pool(256 * KIB);
        churn(&tree(unhinted(&pool)), &pool, seed);
    });
}

#[test]
fn threads_share_a_tree_over_a_single_latch() {
    with_seed(|seed| {
        let pool = pool(256 * KIB);
        churn(&tree(single_latch(&pool)), &pool, seed);
    });
}

/// All threads insert the same keys in the same order: each key is inserted once.
#[test]
fn of_threads_that_insert_a_key_one_wins() {
    let pool = pool(4 * MIB);
    let tree = tree(space(&pool));
    let wins: u64 = std::thread::scope(|scope| {
        let insert = |thread: u8| {
            let tree = &tree;
            let wins = move |number: &u64| {
                tree.insert(&number.to_be_bytes(), &[thread; 30]).expect("inserted")
            };
            move || (0..20_000).filter(wins).count() as u64
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(insert(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("inserter")).sum()
    });
    assert_eq!((wins, tree.len()), (20_000, 20_000));
    assert_eq!(tree.verify().expect("sound").records, 20_000);
}

/// Threads increment the same values: no update is lost.
#[test]
fn updates_of_a_value_exclude_each_other() {
    let pool = pool(4 * MIB);
    let tree = tree(space(&pool));
    for number in 0..8_u64 {
        tree.insert(&number.to_be_bytes(), &[0; 8]).expect("inserted");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..8_000_u64 {
                    let add = |value: &mut [u8]| {
                        let sum = u64::from_le_bytes(value.try_into().expect("8 bytes")) + 1;
                        value.copy_from_slice(&sum.to_le_bytes());
                    };
                    let done = tree.update(&(turn % 8).to_be_bytes(), add).expect("done");
                    assert!(done.is_some());
                }
            });
        }
    });
    for number in 0..8_u64 {
        let value = tree.get(&number.to_be_bytes()).expect("done").expect("there");
        assert_eq!(value, 4_000_u64.to_le_bytes());
    }
}

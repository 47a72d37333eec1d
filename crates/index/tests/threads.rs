//! Many threads on one index that is larger than its pool.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{KIB, MIB, index, is_whole, pool, single_latch, space, unhinted, value_of};
use terrace_index::HashIndex;
use terrace_pool::{Pages, Pool};
use terrace_testkit::{Rng, soak_time, with_seed};

const WRITERS: u64 = 3;
const KEYS: u64 = 150;

fn key_of(writer: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&writer.to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Each writer owns its keys, one of which is always present; readers must get intact values and
/// always find that one.
fn churn<P: Pages>(index: &HashIndex<P>, pool: &Pool, seed: u64) {
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    for writer in 0..WRITERS {
        assert!(index.insert(&key_of(writer, 0), &[5; 25]).expect("inserted"));
    }
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let stop = &stop;
                    move || write(index, writer, seed, stop)
                })
            })
            .collect();
        for reader in 0..2 {
            let (stop, reads) = (&stop, &reads);
            scope.spawn(move || {
                let mut rng = Rng::new(seed ^ (100 + reader));
                while !stop.load(Ordering::Relaxed) {
                    let (writer, number) = (rng.below(WRITERS), rng.below(KEYS));
                    let number = if rng.one_in(3) { 0 } else { number };
                    let seen = index.get_with(&key_of(writer, number), is_whole).expect("done");
                    assert!(seen.unwrap_or(number != 0), "key {number} of {writer}: {seen:?}");
                    reads.fetch_add(1, Ordering::Relaxed);
                    if rng.one_in(2000) {
                        pool.release(64 * KIB);
                    }
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                index.for_each(|_, value| assert!(is_whole(value))).expect("done");
            }
        });
        let end = Instant::now() + soak_time();
        while Instant::now() < end && writers.iter().all(|writer| !writer.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        let kept: u64 = writers.into_iter().map(|writer| writer.join().expect("writer")).sum();
        assert_eq!(index.len(), kept);
    });
    assert!(reads.into_inner() > 0);
    assert_eq!(index.iter().filter(Result::is_ok).count() as u64, index.len());
}

/// Changes the writer's keys until `stop` is set. Returns the number of keys at the end.
fn write<P: Pages>(index: &HashIndex<P>, writer: u64, seed: u64, stop: &AtomicBool) -> u64 {
    let mut rng = Rng::new(seed ^ writer);
    let mut mine: Vec<Option<Vec<u8>>> = vec![None; usize::try_from(KEYS).expect("small")];
    mine[0] = Some(vec![5; 25]);
    while !stop.load(Ordering::Relaxed) {
        let number = rng.index(mine.len());
        let key = key_of(writer, number as u64);
        let value = value_of(&mut rng);
        match rng.below(4) {
            0 if number > 0 => {
                assert_eq!(index.remove(&key).expect("done"), mine[number].take().is_some());
            }
            1 => {
                let added = index.insert(&key, &value).expect("done");
                assert_eq!(added, mine[number].is_none());
                mine[number].get_or_insert(value);
            }
            2 => assert_eq!(index.get(&key).expect("done"), mine[number]),
            _ => {
                let is_new = index.put(&key, &value).expect("done");
                assert_eq!(is_new, mine[number].replace(value).is_none());
            }
        }
    }
    for (number, value) in mine.iter().enumerate() {
        assert_eq!(&index.get(&key_of(writer, number as u64)).expect("done"), value);
    }
    mine.iter().flatten().count() as u64
}

#[test]
fn threads_share_an_index_with_hints() {
    with_seed(|seed| {
        let pool = pool(96 * KIB);
        churn(&index(space(&pool), 3, 4096), &pool, seed);
    });
}

#[test]
fn threads_share_an_index_without_hints() {
    with_seed(|seed| {
        let pool = pool(96 * KIB);
        churn(&index(unhinted(&pool), 3, 4096), &pool, seed);
    });
}

#[test]
fn threads_share_an_index_over_a_single_latch() {
    with_seed(|seed| {
        let pool = pool(96 * KIB);
        churn(&index(single_latch(&pool), 3, 4096), &pool, seed);
    });
}

/// All threads insert the same keys: each key is inserted once.
#[test]
fn of_threads_that_insert_a_key_one_wins() {
    let pool = pool(512 * KIB);
    let index = index(space(&pool), 8, 4096);
    let wins: u64 = std::thread::scope(|scope| {
        let insert = |thread: u8| {
            let index = &index;
            let wins = move |number: &u64| {
                index.insert(&key_of(0, *number), &[thread; 30]).expect("inserted")
            };
            move || (0..1000).filter(wins).count() as u64
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(insert(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("inserter")).sum()
    });
    assert_eq!((wins, index.len()), (1000, 1000));
    assert_eq!(index.shape().expect("read").records, 1000);
}

/// Readers of one key acquire the latch again at once, so that its page is always latched.
#[test]
fn readers_of_a_key_do_not_keep_its_writer_out() {
    const WAIT_MAX: Duration = Duration::from_secs(2);
    let pool = pool(4 * MIB);
    let index = index(space(&pool), 16, 4096);
    let key = key_of(0, 0);
    index.put(&key, &[5; 25]).expect("put");
    let stop = AtomicBool::new(false);
    let read = || {
        while !stop.load(Ordering::Relaxed) {
            assert!(index.get_with(&key, is_whole).expect("read").expect("there"));
        }
    };
    std::thread::scope(|scope| {
        (0..16).for_each(|_| drop(scope.spawn(read)));
        let (mut puts, mut longest) = (0, Duration::ZERO);
        let end = Instant::now() + soak_time();
        while Instant::now() < end && longest < WAIT_MAX {
            let start = Instant::now();
            puts += u64::from(index.put(&key, &[5; 25]).is_ok());
            longest = longest.max(start.elapsed());
        }
        stop.store(true, Ordering::Relaxed);
        assert!(longest < WAIT_MAX, "one of {puts} puts took {longest:?}");
    });
}

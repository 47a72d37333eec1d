//! Throughput of the tree: `tree_speed [TUPLES] [PART]`, 2 million tuples by default; parts are
//! `change`, `look-up` and `store`, all of them by default.
#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::error::Error;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_index::{BTree, TreeConfig};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig, Space};
use terrace_store::Store;
use terrace_testkit::Rng;

const VALUE_BYTES: usize = 120;
const CONFIG: TreeConfig = TreeConfig { page_bytes: 4096 };
/// Look-ups of each measurement, by each thread.
const LOOK_UPS: u64 = 4_000_000;
/// Number of keys of a batch.
const BATCH: usize = 1024;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn pool(dram: u64) -> Outcome<Pool> {
    Ok(Pool::new(PoolConfig::new("example", Ledger::new(dram)))?)
}

/// Keys in pseudo-random order: multiplication by an odd number permutes the words.
fn scattered(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Start of a measurement: wall-clock time, and CPU time of this thread.
struct Begin(Instant, Duration);

impl Begin {
    fn now() -> Self {
        Self(Instant::now(), processor_time())
    }
}

/// CPU time of this thread; on a machine with other load, less than the elapsed time.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}

fn report(what: &str, operations: u64, begin: &Begin) {
    report_times(what, operations, begin.0.elapsed(), processor_time() - begin.1);
}

fn report_times(what: &str, operations: u64, passed: Duration, worked: Duration) {
    let rate = operations as f64 / passed.as_secs_f64() / 1e6;
    let [passed, worked] =
        [passed, worked].map(|time| 1e9 * time.as_secs_f64() / operations as f64);
    println!("{what:<32} {rate:>8.3} M/s  {passed:>7.0} ns, on a processor {worked:>6.0}");
}

/// Bytes of DRAM that are enough for this many tuples.
fn ample(tuples: u64) -> u64 {
    tuples * 260 + (64 << 20)
}

fn loaded(space: Space, tuples: u64) -> Outcome<BTree> {
    let value = [7; VALUE_BYTES];
    Ok(BTree::bulk_load(space, &CONFIG, (0..tuples).map(|n| (n.to_be_bytes(), value)))?)
}

fn change(tuples: u64) -> Outcome {
    let value = [7; VALUE_BYTES];
    for (what, key) in [
        ("insert, random keys", scattered as fn(u64) -> [u8; 8]),
        ("insert, ascending keys", u64::to_be_bytes),
    ] {
        let pool = pool(ample(tuples))?;
        let tree = BTree::new(pool.create_space("tree", None)?, &CONFIG)?;
        let begin = Begin::now();
        for number in 0..tuples {
            tree.insert(&key(number), &value)?;
        }
        report(what, tuples, &begin);
        println!("    {:?}", tree.shape()?);
        let begin = Begin::now();
        for number in 0..tuples {
            tree.update(&key(number), |value| value[0] = 1)?;
        }
        report("  update in place, same order", tuples, &begin);
        let begin = Begin::now();
        for number in 0..tuples {
            tree.remove(&key(number))?;
        }
        report("  remove, same order", tuples, &begin);
    }
    Ok(())
}

fn look_up(tuples: u64) -> Outcome {
    let pool = pool(ample(tuples))?;
    let begin = Begin::now();
    let tree = loaded(pool.create_space("tree", None)?, tuples)?;
    report("bulk load", tuples, &begin);
    println!("    {:?}", tree.shape()?);
    for threads in [1, 2] {
        let begin = Instant::now();
        let worked: Duration = std::thread::scope(|scope| {
            let run = |seed| {
                let tree = &tree;
                move || look_up_some(tree, tuples, seed)
            };
            let threads: Vec<_> = (0..threads).map(|seed| scope.spawn(run(seed))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .sum::<Outcome<Duration>>()
        })?;
        let what = format!("look up, {threads} threads, each");
        report_times(&what, LOOK_UPS, begin.elapsed(), worked / threads);
    }
    batches(&tree, tuples, LOOK_UPS)?;
    let (begin, mut seen) = (Begin::now(), 0);
    tree.scan(Bound::Unbounded, |_, value| {
        seen += 1;
        black_box(value);
        ControlFlow::Continue(())
    })?;
    report("scan, records", seen, &begin);
    let (begin, mut rng) = (Begin::now(), Rng::new(3));
    for _ in 0..LOOK_UPS / 10 {
        let (key, mut left) = (rng.below(tuples).to_be_bytes(), 10);
        tree.scan(Bound::Included(&key), |_, value| {
            black_box(value);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    report("scans of ten records", LOOK_UPS / 10, &begin);
    Ok(())
}

/// Returns the CPU time of the thread.
fn look_up_some(tree: &BTree, tuples: u64, seed: u32) -> Outcome<Duration> {
    let (begin, mut rng) = (processor_time(), Rng::new(seed.into()));
    for _ in 0..LOOK_UPS {
        let found = tree.get_with(&rng.below(tuples).to_be_bytes(), |value| value.len())?;
        assert_eq!(found, Some(VALUE_BYTES));
    }
    Ok(processor_time() - begin)
}

fn look_up_batches(tree: &BTree, rng: &mut Rng, tuples: u64, look_ups: u64) -> Outcome<u64> {
    let mut found = 0;
    for _ in 0..look_ups / BATCH as u64 {
        let keys: Vec<_> = (0..BATCH).map(|_| rng.below(tuples).to_be_bytes()).collect();
        tree.get_batch(&keys, |_, value| found += u64::from(value.is_some()))?;
    }
    Ok(found)
}

fn batches(tree: &BTree, tuples: u64, look_ups: u64) -> Outcome {
    let (begin, mut rng) = (Begin::now(), Rng::new(9));
    let found = look_up_batches(tree, &mut rng, tuples, look_ups)?;
    assert_eq!(found, look_ups / BATCH as u64 * BATCH as u64);
    report(&format!("look up by batches of {BATCH}"), found, &begin);
    Ok(())
}

/// Measures look-ups in data of 1.4 times DRAM over a file in the directory for temporary files.
fn store(tuples: u64) -> Outcome {
    let data = tuples * 138;
    let store = Store::temporary(&std::env::temp_dir(), Some(2 * data))?;
    let mut config = PoolConfig::new("example", Ledger::new(data * 10 / 14));
    config.store = Some(Arc::new(store));
    let pool = Pool::new(config)?;
    let begin = Begin::now();
    let tree = loaded(pool.create_space("tree", None)?, tuples)?;
    report("bulk load, 1.4 times DRAM", tuples, &begin);
    // Pages that were never stored must be written back before others can be read.
    look_up_batches(&tree, &mut Rng::new(4), tuples, tuples / 2)?;
    let (begin, loads, mut rng) = (Begin::now(), pool.stats().loads, Rng::new(5));
    for _ in 0..20_000 {
        tree.get_with(&rng.below(tuples).to_be_bytes(), |_| ())?;
    }
    report("look up, 1.4 times DRAM", 20_000, &begin);
    report("  pages read", pool.stats().loads - loads, &begin);
    let (begin, loads) = (Begin::now(), pool.stats().loads);
    batches(&tree, tuples, 400_000)?;
    report("  pages read", pool.stats().loads - loads, &begin);
    Ok(())
}

fn main() -> Outcome {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let tuples = arguments.first().map_or(Ok(2_000_000), |tuples| tuples.parse())?;
    let part = arguments.get(1).map(String::as_str);
    println!("{tuples} tuples of 8 bytes of key and {VALUE_BYTES} of value");
    let is_wanted = |name| part.is_none_or(|part| part == name);
    if is_wanted("change") {
        change(tuples)?;
    }
    if is_wanted("look-up") {
        look_up(tuples)?;
    }
    if is_wanted("store") {
        store(tuples)?;
    }
    Ok(())
}

//! Latency of a hash index with growing numbers of threads.
//!
//! The set-up of Otaki et al. (CIDR 2025, section 4, figure 6): unique keys of 100 bytes, values of
//! 50 to 100 bytes, 10 million pairs in 1,024 buckets of chained pages of 256 KiB, all in the pool;
//! every pair is inserted, then every pair is looked up in a random order. 10 million pairs are
//! about 7,500 pages, so a chain has about 7 pages of about 1,400 records each. A page finds a key
//! by a table of its own, so the experiment measures the walk along those pages, not along 10,000
//! records. With fewer pairs there are fewer buckets, so that the chains stay as long.
//!
//! The published index without hints finds a page in a map under one latch. Terrace's index without
//! hints uses the page table of the pool, which has no latch; both are compared.
//!
//! With more threads than processors, the time between the beginning and the end of a call is
//! mostly the time in which other threads run. So the result is processor time per operation: the
//! total seconds, times the number of processors that could work, divided by the operations. It
//! includes waiting, which leaves a processor idle, and is constant if threads do not delay each
//! other.

pub mod pairs;

use std::sync::Barrier;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use terrace_index::{HashConfig, Index, Shape, Variant};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_sys::number::float;
use terrace_sys::size::{KIB, MIB, to_usize};

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::median;
use crate::report::{Bars, Grid, Machine, Report, Series};
use crate::setting::{Finding, Setting};
use pairs::{KEY_BYTES, PAIRS_MAX, Pair, VALUE_BYTES, belongs, shuffled};

/// The published set-up.
const PUBLISHED_PAIRS: u64 = 10_000_000;
const PUBLISHED_BUCKETS: u64 = 1024;
const PAGE_BYTES: u64 = 256 * KIB;
const THREADS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Bytes of DRAM for a pair, including the unused rest of each chain's last page.
const DRAM_BYTES_PER_PAIR: u64 = 300;

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct HashIndexOptions {
    /// Number of key-value pairs of hash-index; the published experiment has 10000000
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pairs: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    pairs: u64,
    buckets: u64,
    page_bytes: u64,
    key_bytes: usize,
    value_bytes: (usize, usize),
    dram_bytes: u64,
    threads: Vec<u64>,
    processors: u64,
    rounds: usize,
}

/// Measurements of one index, filled and looked up by `threads` threads.
#[derive(Clone, Debug, Serialize)]
struct Row {
    variant: &'static str,
    threads: u64,
    round: usize,
    insert_seconds: f64,
    look_up_seconds: f64,
    insert_us: f64,
    look_up_us: f64,
    pages: u64,
    longest_chain: u64,
    pages_per_look_up: f64,
    by_hint: f64,
}

/// Medians of a variant, one for each number of threads.
#[derive(Clone, Debug, Serialize)]
struct Line {
    variant: &'static str,
    insert_us: Vec<f64>,
    look_up_us: Vec<f64>,
    /// Time per operation with the slowest number of threads, relative to one thread.
    insert_rise: f64,
    look_up_rise: f64,
}

/// Figures that the paper prints for its index; its plot of latencies has no numbers.
#[derive(Clone, Debug, Serialize)]
struct Published {
    pairs: u64,
    pages: u64,
    chain: f64,
    pages_per_look_up: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    lines: Vec<Line>,
    pages: u64,
    chain: f64,
    pages_per_look_up: f64,
    /// Part of the figures above that the generation of a pair, and of a key, takes.
    make_pair_us: f64,
    make_key_us: f64,
    published: Published,
}

const PUBLISHED: Published =
    Published { pairs: PUBLISHED_PAIRS, pages: 7_500, chain: 7.3, pages_per_look_up: 3.65 };

/// Experiment `hash-index`: a hash index under growing numbers of threads.
pub(crate) struct HashIndex;

impl Experiment for HashIndex {
    const NAME: &'static str = "hash-index";
    const QUESTION: &'static str = "do hints keep an index fast as threads grow?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = HashIndexOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the pool cannot be set up or is too small, or if an inserted pair is not found.
    async fn run(
        setting: &Setting,
        options: &HashIndexOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let config = configure(setting, options.pairs)?;
        let pool = Pool::new(PoolConfig::new("hash-index", Ledger::new(config.dram_bytes)));
        let pool = pool.map_err(refused)?;
        observe("touching memory");
        measure(&pool, &config, Variant::Hints, config.processors, 0)?;
        let mut rows = Vec::new();
        for threads in config.threads.clone() {
            for round in 0..config.rounds {
                for turn in 0..Variant::ALL.len() {
                    let variant = Variant::ALL[(round + turn) % Variant::ALL.len()];
                    let name = variant.name();
                    observe(&format!("{threads} threads, {name}, round {}", round + 1));
                    rows.push(measure(&pool, &config, variant, threads, round)?);
                }
            }
        }
        finding(&config, &rows)
    }
}

fn configure(setting: &Setting, pairs: u64) -> Result<Config> {
    if !(1..=PAIRS_MAX).contains(&pairs) {
        return Err(BenchError::input(format!("{pairs} pairs; 1 to {PAIRS_MAX} can be")));
    }
    let buckets = (pairs * PUBLISHED_BUCKETS).div_ceil(PUBLISHED_PAIRS);
    let ample = pairs * DRAM_BYTES_PER_PAIR + buckets * PAGE_BYTES + 64 * MIB;
    Ok(Config {
        pairs,
        buckets,
        page_bytes: PAGE_BYTES,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        dram_bytes: if setting.dram_is_named { setting.engine.dram_bytes } else { ample },
        threads: THREADS.to_vec(),
        processors: Machine::detect().cpus as u64,
        rounds: setting.rounds.get(),
    })
}

/// Wraps an error of the pool or of the index as a [`BenchError::Engine`].
fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Engine(error.to_string())
}

/// Fills an empty index, then looks every pair up.
fn measure(
    pool: &Pool,
    config: &Config,
    variant: Variant,
    threads: u64,
    round: usize,
) -> Result<Row> {
    let space = pool.create_space(variant.name(), None).map_err(refused)?;
    let shape =
        HashConfig { buckets: to_usize(config.buckets), page_bytes: to_usize(config.page_bytes) };
    let index = variant.hash_index(space, &shape).map_err(refused)?;
    let insert_seconds = together(threads, config.pairs, |numbers| insert(&*index, numbers))?;
    let before = pool.stats();
    let look_up_seconds =
        together(threads, config.pairs, |places| look_up(&*index, places, config.pairs))?;
    let after = pool.stats();
    let by_hint = float(after.hint_hits - before.hint_hits);
    let fixes = by_hint + float(after.look_ups - before.look_ups);
    let shape: Shape = index.shape().map_err(refused)?;
    let each = 1e6 * float(threads.min(config.processors)) / float(config.pairs);
    Ok(Row {
        variant: variant.name(),
        threads,
        round,
        insert_seconds,
        look_up_seconds,
        insert_us: insert_seconds * each,
        look_up_us: look_up_seconds * each,
        pages: shape.pages,
        longest_chain: shape.longest,
        pages_per_look_up: fixes / float(config.pairs),
        by_hint: by_hint / fixes,
    })
}

/// Runs `work` on `threads` threads, each with its part of `0..total`. Returns the seconds from the
/// start of the first to the end of the last.
fn together(
    threads: u64,
    total: u64,
    work: impl Fn(std::ops::Range<u64>) -> Result<()> + Sync,
) -> Result<f64> {
    let start = Barrier::new(to_usize(threads) + 1);
    let part = |thread: u64| thread * total / threads..(thread + 1) * total / threads;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(part(thread))
                })
            })
            .collect();
        // The clock starts first, as a worker may finish before this thread runs again.
        let began = Instant::now();
        start.wait();
        for worker in workers {
            worker.join().map_err(|_| BenchError::Engine("a worker panicked".into()))??;
        }
        Ok(began.elapsed().as_secs_f64())
    })
}

fn insert(index: &dyn Index, numbers: std::ops::Range<u64>) -> Result<()> {
    let mut pair = Pair::new();
    for number in numbers {
        pair.set(number);
        if !index.insert(pair.key(), pair.value()).map_err(refused)? {
            return Err(BenchError::Engine(format!("pair {number} is there already")));
        }
    }
    Ok(())
}

fn look_up(index: &dyn Index, places: std::ops::Range<u64>, pairs: u64) -> Result<()> {
    let (mut pair, mut value) = (Pair::new(), Vec::with_capacity(VALUE_BYTES.1));
    for place in places {
        let number = shuffled(place, pairs);
        pair.set_key(number);
        let found = index.get_into(pair.key(), &mut value).map_err(refused)?;
        if !found || !belongs(&value, number) {
            return Err(BenchError::Engine(format!("pair {number} is not as it was inserted")));
        }
    }
    Ok(())
}

/// Returns the microseconds to generate a pair, and to generate a key, without an index.
fn making() -> (f64, f64) {
    const COUNT: u64 = 100_000;
    let mut pair = Pair::new();
    let mut time = |make: fn(&mut Pair, u64)| {
        let began = Instant::now();
        for number in 0..COUNT {
            make(std::hint::black_box(&mut pair), number);
        }
        began.elapsed().as_secs_f64() * 1e6 / float(COUNT)
    };
    (time(Pair::set), time(Pair::set_key))
}

fn line(variant: Variant, config: &Config, rows: &[Row]) -> Line {
    let medians = |value: fn(&Row) -> f64| -> Vec<f64> {
        let of = |threads: &u64| {
            let same = |row: &&Row| row.variant == variant.name() && row.threads == *threads;
            let values: Vec<f64> = rows.iter().filter(same).map(value).collect();
            median(&values).unwrap_or(f64::NAN)
        };
        config.threads.iter().map(of).collect()
    };
    let rise = |values: &[f64]| {
        let worst = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        values.first().map_or(f64::NAN, |first| worst / first)
    };
    let (insert_us, look_up_us) = (medians(|row| row.insert_us), medians(|row| row.look_up_us));
    let (insert_rise, look_up_rise) = (rise(&insert_us), rise(&look_up_us));
    Line { variant: variant.name(), insert_us, look_up_us, insert_rise, look_up_rise }
}

fn summarise(config: &Config, rows: &[Row]) -> Summary {
    let (make_pair_us, make_key_us) = making();
    let pages = rows.first().map_or(0, |row| row.pages);
    let all = |value: fn(&Row) -> f64| rows.iter().map(value).collect::<Vec<_>>();
    Summary {
        lines: Variant::ALL.iter().map(|variant| line(*variant, config, rows)).collect(),
        pages,
        chain: float(pages) / float(config.buckets),
        pages_per_look_up: median(&all(|row| row.pages_per_look_up)).unwrap_or(f64::NAN),
        make_pair_us,
        make_key_us,
        published: PUBLISHED,
    }
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(config, rows);
    let titles = ["insert", "look up"].iter().flat_map(|operation| {
        Variant::ALL.iter().map(move |variant| format!("{operation} us, {}", variant.name()))
    });
    let mut grid = Grid::new(["threads".to_string()].into_iter().chain(titles));
    for (at, threads) in config.threads.iter().enumerate() {
        let inserts = summary.lines.iter().map(|line| line.insert_us[at]);
        let look_ups = summary.lines.iter().map(|line| line.look_up_us[at]);
        let cells = inserts.chain(look_ups).map(|value| format!("{value:.2}"));
        grid.push([threads.to_string()].into_iter().chain(cells));
    }
    let rises = summary.lines.iter().map(|line| {
        let (insert, look_up) = (line.insert_rise, line.look_up_rise);
        let name = line.variant;
        format!("{name}: worst over one thread, insert {insert:.2}x, look up {look_up:.2}x")
    });
    Ok(Finding {
        failed: 0,
        more: Vec::new(),
        notes: rises.chain(notes(config, &summary)).collect(),
        picture: picture(config, &summary),
        report: Report::new(HashIndex::NAME, config, rows, &summary)?,
        grid,
    })
}

fn notes(config: &Config, summary: &Summary) -> [String; 3] {
    let Published { pairs, pages, chain, pages_per_look_up } = summary.published;
    [
        format!(
            "{} pairs in {} pages, chains of {:.1}, {:.2} pages a look-up; published: {pairs} \
             pairs in {pages} pages, chains of {chain}, {pages_per_look_up} pages a look-up (its \
             latencies are a figure without numbers)",
            config.pairs, summary.pages, summary.chain, summary.pages_per_look_up
        ),
        format!(
            "microseconds of a processor ({} of them) for one operation, with {:.2} to make a pair \
             to insert and {:.2} to make a key to look up",
            config.processors, summary.make_pair_us, summary.make_key_us
        ),
        format!("medians of {} rounds", config.rounds),
    ]
}

fn picture(config: &Config, summary: &Summary) -> Bars {
    let labels = |operation: &'static str| {
        config.threads.iter().map(move |threads| format!("{operation} {threads}"))
    };
    let series = |line: &Line| Series {
        name: line.variant.to_string(),
        values: line.insert_us.iter().chain(&line.look_up_us).map(|value| Some(*value)).collect(),
    };
    Bars {
        title: format!("Hash index, {} pairs, by threads", config.pairs),
        unit: "microseconds of a processor".into(),
        categories: labels("insert").chain(labels("look up")).collect(),
        series: summary.lines.iter().map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_has_every_row_and_a_picture() {
        let config = Config {
            pairs: 3_000,
            buckets: 2,
            page_bytes: 16 * KIB,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            dram_bytes: 16 * MIB,
            threads: vec![1, 3],
            processors: 2,
            rounds: 1,
        };
        let pool = Pool::new(PoolConfig::new("test", Ledger::new(config.dram_bytes)));
        let pool = pool.expect("opens");
        let mut rows = Vec::new();
        for threads in &config.threads {
            for variant in Variant::ALL {
                rows.push(measure(&pool, &config, variant, *threads, 0).expect("measured"));
            }
        }
        assert!(rows.iter().all(|row| row.pages > 30 && row.pages_per_look_up > 5.0), "{rows:?}");
        let by_hint = |row: &Row| (row.by_hint > 0.99) == (row.variant != "page table");
        assert!(rows.iter().all(by_hint), "{rows:?}");
        let finding = finding(&config, &rows).expect("finding");
        assert_eq!((finding.report.rows.len(), finding.picture.categories.len()), (6, 4));
        assert!(finding.notes.iter().any(|note| note.contains("published")));
    }
}

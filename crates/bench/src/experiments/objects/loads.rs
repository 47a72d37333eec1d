//! Figures 4 to 7: workloads with growing numbers of threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;
use terrace_objects::{Batch, ObjectId, ObjectStore};
use terrace_sys::histogram::{Histogram, Recorder};
use terrace_workload::random::Random;

use super::config::Config;
use super::popularity::Popularity;
use super::store::{refused, store};
use crate::error::Result;
use crate::measure::{by_case, median_of};

/// Numbers of threads, as published.
const THREADS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Sampling of latencies: one operation in this many is timed, as reading the clock takes as long
/// as a get.
const TIMED_EVERY: usize = 8;

/// Mix of operations and size of records of a workload.
#[derive(Clone, Copy, Debug)]
struct Workload {
    figure: &'static str,
    name: &'static str,
    /// Number of objects with consecutive ids that one operation reads or writes.
    fields: usize,
    len: usize,
    /// Number of gets among a hundred operations.
    gets: u64,
    /// Published results: number of threads, and millions of operations per second.
    published: &'static [(usize, f64)],
}

const WORKLOADS: [Workload; 4] = [
    Workload { figure: "4", name: "YCSB-A", fields: 10, len: 100, gets: 50, published: &[] },
    Workload {
        figure: "5",
        name: "Facebook-B",
        fields: 1,
        len: 32,
        gets: 95,
        published: &[(1, 11.0), (32, 78.0)],
    },
    Workload { figure: "6", name: "Facebook-D", fields: 24, len: 32, gets: 95, published: &[] },
    Workload { figure: "7", name: "Facebook-F", fields: 1, len: 64, gets: 100, published: &[] },
];

/// Measurements of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    workload: &'static str,
    threads: usize,
    /// Millions of operations of any kind per second of elapsed time.
    per_second_m: f64,
    get: Latencies,
    /// `None` for a workload without puts.
    put: Option<Latencies>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latencies {
    mean_us: f64,
    p95_us: f64,
    p99_us: f64,
    p999_us: f64,
}

impl Latencies {
    fn of(histogram: &Histogram, mean_ns: f64) -> Self {
        let us = |part| histogram.quantile(part) as f64 / 1e3;
        let (p95_us, p99_us, p999_us) = (us(0.95), us(0.99), us(0.999));
        Self { mean_us: mean_ns / 1e3, p95_us, p99_us, p999_us }
    }

    fn median(rows: &[&Load], of: impl Fn(&Load) -> Option<Self>) -> Option<Self> {
        let first = rows.first().and_then(|row| of(row))?;
        let one = |value: fn(&Self) -> f64| median_of(rows, |row| value(&of(row).unwrap_or(first)));
        Some(Self {
            mean_us: one(|it| it.mean_us),
            p95_us: one(|it| it.p95_us),
            p99_us: one(|it| it.p99_us),
            p999_us: one(|it| it.p999_us),
        })
    }

    fn text(&self) -> String {
        let Self { mean_us, p95_us, p99_us, p999_us } = self;
        format!("{mean_us:.2}/{p95_us:.2}/{p99_us:.2}/{p999_us:.1}")
    }
}

impl Load {
    fn workload(&self) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == self.workload)
    }

    pub(super) fn cells(&self) -> [String; 5] {
        let workload = self.workload();
        let published = workload.and_then(|workload| {
            workload.published.iter().find(|(threads, _)| *threads == self.threads)
        });
        let put = self.put.map(|put| format!(", put {}", put.text())).unwrap_or_default();
        let get = self.get.text();
        [
            workload.map_or_else(String::new, |workload| workload.figure.to_owned()),
            self.workload.to_owned(),
            self.threads.to_string(),
            format!("{:.2} M/s; mean/95/99/99.9 % us: get {get}{put}", self.per_second_m),
            published.map_or_else(String::new, |(_, rate)| format!("{rate} M/s, 16 processors")),
        ]
    }
}

pub(super) fn measure(config: &Config, observe: &mut dyn FnMut(&str)) -> Result<Vec<Load>> {
    measure_by(config, &THREADS, observe)
}

pub(super) fn measure_by(
    config: &Config,
    threads: &[usize],
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<Load>> {
    let mut loads = Vec::new();
    for workload in &WORKLOADS {
        let (store, ids) = fill(config, workload)?;
        let draws = Popularity::Uniform.draw(&ids, 1);
        for threads in threads {
            observe(&format!("{}, {threads} threads", workload.name));
            loads.push(load(config, workload, &store, &draws, *threads));
        }
    }
    Ok(loads)
}

/// Fills a store with the records of a workload. Returns it with the first id of each record.
fn fill(config: &Config, workload: &Workload) -> Result<(ObjectStore, Vec<ObjectId>)> {
    let store = store()?;
    let bytes = vec![7; workload.len];
    let fields = vec![bytes.as_slice(); workload.fields];
    let records = config.objects.div_ceil(workload.fields as u64);
    let ids = (0..records).map(|_| store.create_consecutive(&fields));
    let ids = ids.collect::<std::result::Result<_, _>>().map_err(|error| refused(&error))?;
    Ok((store, ids))
}

/// Counters of a thread.
#[derive(Default)]
struct Counts {
    operations: u64,
    get: Recorder,
    put: Recorder,
    /// Sum in nanoseconds and number of the timed operations, for gets and puts.
    timed: [(u64, u64); 2],
}

fn load(
    config: &Config,
    workload: &Workload,
    store: &ObjectStore,
    draws: &[ObjectId],
    threads: usize,
) -> Load {
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let counts: Vec<Counts> = std::thread::scope(|scope| {
        let stop = &stop;
        // Threads start far apart in the draws, or one would find objects that another has just
        // brought into the cache.
        let skip = draws.len() / threads;
        let run = |thread| {
            let draws = draws.iter().cycle().skip(skip * thread);
            scope.spawn(move || work(workload, store, draws, thread, stop))
        };
        let threads: Vec<_> = (0..threads).map(run).collect();
        std::thread::sleep(config.lasts());
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let took = began.elapsed().as_secs_f64();
    let latencies = |kind: usize| {
        let mut all = Histogram::new();
        counts.iter().for_each(|it| [&it.get, &it.put][kind].add_to(&mut all));
        let sums = counts.iter().map(|it| it.timed[kind]);
        let (sum, count) = sums.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        (count > 0).then(|| Latencies::of(&all, sum as f64 / count as f64))
    };
    let none = Latencies { mean_us: 0.0, p95_us: 0.0, p99_us: 0.0, p999_us: 0.0 };
    Load {
        workload: workload.name,
        threads,
        per_second_m: counts.iter().map(|it| it.operations).sum::<u64>() as f64 / took / 1e6,
        get: latencies(0).unwrap_or(none),
        put: latencies(1),
    }
}

fn work<'a>(
    workload: &Workload,
    store: &ObjectStore,
    draws: impl Iterator<Item = &'a ObjectId>,
    thread: usize,
    stop: &AtomicBool,
) -> Counts {
    let mut counts = Counts::default();
    let mut chance = Random::new(thread as u64, 0);
    let (mut batch, mut room) = (Batch::new(), vec![0; workload.len]);
    let from = vec![8; workload.len];
    for (n, first) in draws.enumerate() {
        if n % 64 == 0 && stop.load(Ordering::Relaxed) {
            break;
        }
        let gets = chance.below(100) < workload.gets;
        let timed = (n % TIMED_EVERY == 0).then(Instant::now);
        let ids = (0..workload.fields as u64).map(|n| ObjectId::from_bits(first.to_bits() + n));
        let served = match (gets, workload.fields) {
            (true, 1) => store.get(*first, &mut room).is_ok(),
            (true, _) => {
                store.get_many(&ids.collect::<Vec<ObjectId>>(), &mut batch);
                batch.iter().all(|found| found.is_ok())
            }
            (false, 1) => store.put(*first, &from).is_ok(),
            (false, _) => {
                let objects: Vec<(ObjectId, &[u8])> = ids.map(|id| (id, &*from)).collect();
                store.put_many(&objects).iter().all(Result::is_ok)
            }
        };
        counts.operations += u64::from(served);
        if let Some(began) = timed {
            let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let kind = usize::from(!gets);
            [&counts.get, &counts.put][kind].record(ns);
            counts.timed[kind] = (counts.timed[kind].0 + ns, counts.timed[kind].1 + 1);
        }
    }
    counts
}

pub(super) fn medians(rows: &[&Load]) -> Vec<Load> {
    let fold = |same: &[&Load]| Load {
        per_second_m: median_of(same, |load| load.per_second_m),
        get: Latencies::median(same, |load| Some(load.get)).unwrap_or(same[0].get),
        put: Latencies::median(same, |load| load.put),
        ..same[0].clone()
    };
    by_case(rows, |load| (load.workload, load.threads), fold)
}

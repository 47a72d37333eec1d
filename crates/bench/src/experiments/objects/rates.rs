//! Operations per processor second: creates, gets and puts, and batched gets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;
use terrace_objects::{Batch, ObjectId, ObjectStore};
use terrace_sys::process::cpu_time;

use super::config::Config;
use super::popularity::Popularity;
use super::store::{refused, store};
use super::targets::TARGETS;
use crate::error::{BenchError, Result};
use crate::measure::{by_case, median_of};

/// Bytes of an object.
const LEN: usize = 32;
/// One operation in this many is a put.
const PUT_EVERY: usize = 20;
const BATCH: usize = 32;
/// Number of operations between two checks of the stop flag.
const STEP: usize = 1024;

/// Kind of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// Single operations, 95 % get and 5 % put.
    Single,
    /// Gets in batches.
    Batched,
    /// Creates, one by one in an empty store, an equal number by each thread.
    Create,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Single => "95 % get, 5 % put",
            Way::Batched => "get by batches of 32",
            Way::Create => "create",
        }
    }
}

/// Measurements of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rate {
    way: Way,
    popularity: Popularity,
    threads: usize,
    /// Millions of operations per second of elapsed time.
    per_second_m: f64,
    /// Millions of operations per second of processor time.
    per_core_second_m: f64,
}

impl Rate {
    pub(super) fn cells(&self) -> [String; 5] {
        let targets = match self.way {
            Way::Single => TARGETS.single,
            Way::Batched => TARGETS.batched,
            Way::Create => return self.made(),
        };
        let target = targets[usize::from(self.popularity == Popularity::Zipf)];
        [
            String::new(),
            format!("{}, {LEN} B, {}", self.way.name(), self.popularity.name()),
            self.threads.to_string(),
            format!("{:.1} M/core s, {:.1} M/s", self.per_core_second_m, self.per_second_m),
            format!("at least {target} M/core s"),
        ]
    }
}

impl Rate {
    fn made(&self) -> [String; 5] {
        let Self { per_core_second_m, per_second_m, .. } = self;
        [
            String::new(),
            format!("create, {LEN} B"),
            self.threads.to_string(),
            format!("{per_core_second_m:.1} M/core s, {per_second_m:.1} M/s"),
            String::new(),
        ]
    }
}

/// Creates the objects with `threads` threads.
fn create(config: &Config, threads: usize) -> Result<Rate> {
    let store = store()?;
    let part = config.objects.div_ceil(threads as u64);
    let (began, busy) = (Instant::now(), cpu_time());
    let made = || (0..part).try_for_each(|_| store.create_with(&[7; LEN]).map(|_| ()));
    std::thread::scope(|scope| {
        let made = &made;
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(made)).collect();
        let ended = || BenchError::Engine("a thread that makes objects has ended".into());
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| ended())?.map_err(|error| refused(&error))
        })
    })?;
    let (took, busy) = (began.elapsed().as_secs_f64(), (cpu_time() - busy).as_secs_f64());
    let millions = (part * threads as u64) as f64 / 1e6;
    Ok(Rate {
        way: Way::Create,
        popularity: Popularity::Uniform,
        threads,
        per_second_m: millions / took,
        per_core_second_m: millions / busy,
    })
}

pub(super) fn measure(config: &Config, observe: &mut dyn FnMut(&str)) -> Result<Vec<Rate>> {
    let mut rates = Vec::new();
    for threads in [1, config.threads.max(2)] {
        observe(&format!("create, {threads} threads"));
        rates.push(create(config, threads)?);
    }
    let store = store()?;
    let bytes = [7; LEN];
    let ids = (0..config.objects).map(|_| store.create_with(&bytes));
    let ids: Vec<ObjectId> =
        ids.collect::<std::result::Result<_, _>>().map_err(|error| refused(&error))?;
    for popularity in Popularity::ALL {
        for threads in [1, config.threads.max(2)] {
            let draws: Vec<Vec<ObjectId>> =
                (0..threads).map(|thread| popularity.draw(&ids, thread as u64)).collect();
            for way in [Way::Single, Way::Batched] {
                observe(&format!("{}, {}, {threads} threads", way.name(), popularity.name()));
                rates.push(rate(config, &store, way, popularity, &draws));
            }
        }
    }
    Ok(rates)
}

fn rate(
    config: &Config,
    store: &ObjectStore,
    way: Way,
    popularity: Popularity,
    draws: &[Vec<ObjectId>],
) -> Rate {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (began, busy) = (Instant::now(), cpu_time());
    std::thread::scope(|scope| {
        for ids in draws {
            let (done, stop) = (&done, &stop);
            scope.spawn(move || {
                let count = match way {
                    Way::Batched => batched(store, ids, stop),
                    Way::Single | Way::Create => single(store, ids, stop),
                };
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        std::thread::sleep(config.lasts());
        stop.store(true, Ordering::Relaxed);
    });
    let (took, busy) = (began.elapsed().as_secs_f64(), (cpu_time() - busy).as_secs_f64());
    let millions = done.into_inner() as f64 / 1e6;
    Rate {
        way,
        popularity,
        threads: draws.len(),
        per_second_m: millions / took,
        per_core_second_m: millions / busy,
    }
}

fn single(store: &ObjectStore, ids: &[ObjectId], stop: &AtomicBool) -> u64 {
    let (mut bytes, from) = ([0; LEN], [8; LEN]);
    let mut count = 0;
    for ids in ids.chunks(STEP).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for (n, id) in ids.iter().enumerate() {
            let served = if n % PUT_EVERY == 0 {
                store.put(*id, &from).is_ok()
            } else {
                store.get(*id, &mut bytes).is_ok()
            };
            count += u64::from(served);
        }
    }
    std::hint::black_box(bytes);
    count
}

fn batched(store: &ObjectStore, ids: &[ObjectId], stop: &AtomicBool) -> u64 {
    let (mut batch, mut count) = (Batch::new(), 0);
    for ids in ids.chunks(STEP).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for ids in ids.chunks(BATCH) {
            store.get_many(ids, &mut batch);
            count += batch.iter().filter(Result::is_ok).count() as u64;
        }
    }
    count
}

/// Returns a note with the speed-up of several threads over one.
pub(super) fn scaling(rates: &[Rate], way: Way, popularity: Popularity) -> Option<String> {
    let of = |one: bool| {
        rates.iter().find(|rate| {
            let same = rate.way == way && rate.popularity == popularity;
            same && (rate.threads == 1) == one
        })
    };
    let (one, more) = (of(true)?, of(false)?);
    Some(format!(
        "{}, {}: {} threads give {:.2} of what one gives, target {} for two",
        way.name(),
        popularity.name(),
        more.threads,
        more.per_second_m / one.per_second_m,
        TARGETS.scaling
    ))
}

pub(super) fn medians(rows: &[&Rate]) -> Vec<Rate> {
    let fold = |same: &[&Rate]| Rate {
        per_second_m: median_of(same, |rate| rate.per_second_m),
        per_core_second_m: median_of(same, |rate| rate.per_core_second_m),
        ..same[0].clone()
    };
    by_case(rows, |rate| (rate.way, rate.popularity, rate.threads), fold)
}

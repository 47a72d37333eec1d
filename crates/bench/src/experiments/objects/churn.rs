//! Churn: continuous creates and removes in a store that is full.
//!
//! A store with a fixed amount of memory is filled with objects of 32 bytes. A random half of them
//! is removed, and objects of 16 to 128 bytes are created until the store is full again. Then
//! threads create objects, and for each remove a random object of their own; a thread whose create
//! is refused removes further ones. Finally objects are removed until 90 % of the freed bytes are
//! in use, and threads create and remove equal numbers of bytes.
//!
//! Close to the limit a create must first compact memory, and a large store fills up slowly:
//! filling ends after the seconds of the churn, and the report says if the store was full by then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_objects::{Backing, ObjectConfig, ObjectError, ObjectId, ObjectStore};
use terrace_sys::histogram::{Histogram, Recorder};
use terrace_sys::size::{MIB, format_bytes, to_u64, to_usize};
use terrace_workload::random::Random;

use super::store::refused;
use crate::error::{BenchError, Result};
use crate::report::{Bars, Line, Lines, Panel, Series};

/// Default bytes of memory of the store.
pub(super) const MEMORY_BYTES: u64 = 512 * MIB;
/// Bytes of an initial object.
const LEN: usize = 32;
/// Minimum and maximum bytes of a later object.
const LEN_MIN: usize = 16;
const LEN_MAX: usize = 128;
/// Share of its objects that a thread removes after a refused create (1 / `LEAVES`).
const LEAVES: usize = 256;
/// Number of operations between two checks of the stop flag.
const STEP: u64 = 64;
const TELL_EVERY: Duration = Duration::from_millis(200);
/// Target for the share of the freed bytes that are in use again.
const TARGET: f64 = 0.9;

/// Parameters of the churn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) memory_bytes: u64,
    pub(super) threads: usize,
    pub(super) seconds: f64,
}

/// Results of the churn.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Churn {
    memory_bytes: u64,
    threads: usize,
    seconds: f64,
    /// Bytes of objects when the store was first full, and the bytes that were freed then.
    full_bytes: u64,
    freed_bytes: u64,
    /// Share of the freed bytes that is in use again in the full store, before and after the churn.
    share_at_start: f64,
    share_at_end: f64,
    /// True if a create had been refused at the start and at the end of the churn.
    full_at_start: bool,
    full_at_end: bool,
    turns: Vec<Turn>,
}

/// Measurements of one period of churn.
#[derive(Clone, Debug, Serialize)]
struct Turn {
    /// Share of the freed bytes that was kept in use; `None` if the store was kept full.
    kept: Option<f64>,
    created: u64,
    removed: u64,
    refused: u64,
    /// Millions of creates and removes per second of elapsed time.
    per_second_m: f64,
    create_p50_us: f64,
    create_p99_us: f64,
    create_longest_ms: f64,
    /// Number of creates of more than a millisecond, which first made room; and the share of the
    /// threads' time that these and refused creates took.
    slow_creates: u64,
    slow_share: f64,
    /// Duration of the longest refused create.
    refused_longest_ms: f64,
    samples: Vec<Sample>,
}

/// Occupancy and rate at one point in time.
#[derive(Clone, Copy, Debug, Serialize)]
struct Sample {
    seconds: f64,
    share: f64,
    /// Millions of creates and removes per second since the previous sample.
    per_second_m: f64,
}

impl Churn {
    pub(super) fn cells(&self) -> Vec<[String; 5]> {
        let row = |what: &str, found: String, target: String| {
            [String::new(), format!("churn: {what}"), self.threads.to_string(), found, target]
        };
        let percent = |share: f64, full: bool| {
            format!("{:.1} %{}", 100.0 * share, if full { "" } else { ", and it was not full" })
        };
        let target = || format!("at least {:.0} %", 100.0 * TARGET);
        let what = |when: &str| format!("of the freed bytes serve again {when}");
        let mut rows = vec![
            row(&what("at the start"), percent(self.share_at_start, self.full_at_start), target()),
            row(&what("at the end"), percent(self.share_at_end, self.full_at_end), target()),
        ];
        for turn in &self.turns {
            rows.extend(turn.cells().map(|(what, found)| row(&what, found, String::new())));
        }
        rows
    }

    pub(super) fn shares(&self) -> Bars {
        let values = vec![Some(100.0 * self.share_at_start), Some(100.0 * self.share_at_end)];
        Bars {
            title: "Freed bytes that serve again".into(),
            unit: "%".into(),
            categories: vec!["at the start".into(), "at the end".into()],
            series: vec![Series { name: "here".into(), values }],
        }
    }

    pub(super) fn picture(&self) -> Lines {
        let panel = |title: &str, y: &str, of: fn(&Sample) -> f64| Panel {
            title: title.into(),
            x: "seconds".into(),
            y: y.into(),
            lines: self.turns.iter().map(|turn| turn.line(of)).collect(),
        };
        Lines {
            panels: vec![
                panel("Freed bytes that serve again", "%", |it| 100.0 * it.share),
                panel("Creates and removes", "thousands a second", |it| 1e3 * it.per_second_m),
            ],
        }
    }
}

impl Turn {
    fn of(kept: Option<f64>, took: Duration, counts: &[Counts], samples: Vec<Sample>) -> Self {
        let (mut created, mut none) = (Histogram::new(), Histogram::new());
        counts.iter().for_each(|it| it.created.add_to(&mut created));
        counts.iter().for_each(|it| it.refused.add_to(&mut none));
        let removed = counts.iter().map(|it| it.removed).sum::<u64>();
        let threads_ns = took.as_secs_f64() * 1e9 * counts.len() as f64;
        Self {
            kept,
            created: created.count(),
            removed,
            refused: none.count(),
            per_second_m: (created.count() + removed) as f64 / took.as_secs_f64() / 1e6,
            create_p50_us: created.quantiles().p50_ns as f64 / 1e3,
            create_p99_us: created.quantiles().p99_ns as f64 / 1e3,
            create_longest_ms: created.quantiles().max_ns as f64 / 1e6,
            slow_creates: counts.iter().map(|it| it.slow).sum(),
            slow_share: counts.iter().map(|it| it.slow_ns).sum::<u64>() as f64 / threads_ns,
            refused_longest_ms: none.quantiles().max_ns as f64 / 1e6,
            samples,
        }
    }

    fn name(&self) -> String {
        self.kept.map_or_else(|| "full".into(), |share| format!("at {:.0} %", 100.0 * share))
    }

    fn cells(&self) -> [(String, String); 3] {
        let Self { created, removed, refused, create_p50_us, create_p99_us, .. } = self;
        let rate = 1e3 * self.per_second_m;
        let counts = format!("{created} created, {removed} removed, {refused} refused");
        let longest = format!(
            "{create_p50_us:.2} us, 99 % {create_p99_us:.2} us, longest {:.1} ms; longest refused \
             {:.1} ms",
            self.create_longest_ms, self.refused_longest_ms
        );
        let slow = 100.0 * self.slow_share;
        let room = format!(
            "{} creates took more than 1 ms; with the refused ones {slow:.1} % of the time",
            self.slow_creates
        );
        let name = self.name();
        [
            (format!("{name}, operations"), format!("{rate:.1} k/s; {counts}")),
            (format!("{name}, a create"), longest),
            (format!("{name}, room"), room),
        ]
    }

    fn line(&self, of: fn(&Sample) -> f64) -> Line {
        let points = self.samples.iter().map(|it| (it.seconds, of(it)));
        Line { name: self.name(), points: points.collect() }
    }
}

pub(super) fn measure(plan: Plan, observe: &mut dyn FnMut(&str)) -> Result<Churn> {
    let mut full = Full::new(plan, observe)?;
    let (share_at_start, full_at_start) = (full.share(), full.is_full);
    let mut turns = Vec::new();
    for kept in [None, Some(TARGET)] {
        if let Some(kept) = kept {
            full.leave(kept)?;
        }
        turns.push(full.churn(plan, kept, observe)?);
    }
    full.fill_up(plan, observe)?;
    observe("looking through the store");
    full.store.check().map_err(|error| refused(&error))?;
    Ok(Churn {
        memory_bytes: plan.memory_bytes,
        threads: plan.threads,
        seconds: plan.seconds,
        full_bytes: full.full_bytes,
        freed_bytes: full.freed_bytes,
        share_at_start,
        share_at_end: full.share(),
        full_at_start,
        full_at_end: full.is_full,
        turns,
    })
}

/// A store that was filled, partly emptied and filled again, and the ids of its objects.
struct Full {
    store: ObjectStore,
    ids: Vec<ObjectId>,
    full_bytes: u64,
    freed_bytes: u64,
    /// True if filling up ended with a refused create.
    is_full: bool,
    chance: Random,
}

impl Full {
    /// Fills a store with short objects, removes half of them, and fills it with others.
    fn new(plan: Plan, observe: &mut dyn FnMut(&str)) -> Result<Self> {
        let bytes = to_usize(plan.memory_bytes);
        observe(&format!("filling {} with objects", format_bytes(plan.memory_bytes)));
        let config = ObjectConfig::new("bench", Backing::Dram { bytes });
        let store = ObjectStore::new(config).map_err(|error| refused(&error))?;
        let (mut ids, mut chance) = (Vec::new(), Random::new(0, 0));
        while let Some(id) = create(&store, &[7; LEN])? {
            ids.push(id);
        }
        let full_bytes = to_u64(ids.len() * LEN);
        observe("removing every second object");
        let freed = ids.len() / 2;
        for _ in 0..freed {
            remove_one(&store, &mut ids, &mut chance)?;
        }
        let mut full = Self {
            store,
            ids,
            full_bytes,
            freed_bytes: to_u64(freed * LEN),
            is_full: false,
            chance,
        };
        full.fill_up(plan, observe)?;
        Ok(full)
    }

    fn fill_up(&mut self, plan: Plan, observe: &mut dyn FnMut(&str)) -> Result<()> {
        let (began, mut told) = (Instant::now(), Duration::ZERO);
        let lasts = Duration::from_secs_f64(plan.seconds);
        self.is_full = false;
        while began.elapsed() < lasts {
            let Some(id) = create(&self.store, drawn(&mut self.chance))? else {
                self.is_full = true;
                break;
            };
            self.ids.push(id);
            if began.elapsed() > told + TELL_EVERY {
                told = began.elapsed();
                let percent = 100.0 * self.share();
                observe(&format!("filling up: {percent:.1} % of the freed bytes serve again"));
            }
        }
        Ok(())
    }

    /// Returns the share of the freed bytes that is in use again.
    fn share(&self) -> f64 {
        share(&self.store, self.full_bytes, self.freed_bytes)
    }

    /// Removes objects until at most the share `kept` of the freed bytes is in use.
    fn leave(&mut self, kept: f64) -> Result<()> {
        while self.share() > kept {
            for _ in 0..STEP {
                remove_one(&self.store, &mut self.ids, &mut self.chance)?;
            }
        }
        Ok(())
    }

    fn churn(
        &mut self,
        plan: Plan,
        kept: Option<f64>,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Turn> {
        let mut all = std::mem::take(&mut self.ids);
        let part = all.len().div_ceil(plan.threads);
        let parts: Vec<Vec<ObjectId>> =
            (0..plan.threads).map(|_| all.split_off(all.len().saturating_sub(part))).collect();
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let (full, freed) = (self.full_bytes, self.freed_bytes);
        let mut samples = Vec::new();
        let began = Instant::now();
        let leaves = if kept.is_some() { Leaves::AsManyBytes } else { Leaves::One };
        let ended = std::thread::scope(|scope| {
            let (store, stop, done) = (&self.store, &stop, &done);
            let run =
                |(thread, ids)| scope.spawn(move || work(store, ids, leaves, thread, stop, done));
            let threads: Vec<_> = parts.into_iter().enumerate().map(run).collect();
            samples = sample(plan, done, || share(store, full, freed), observe);
            stop.store(true, Ordering::Relaxed);
            let ended = |_| BenchError::Engine("a thread that creates objects has ended".into());
            threads.into_iter().map(|it| it.join().map_err(ended)?).collect::<Result<Vec<_>>>()
        })?;
        let took = began.elapsed();
        let (counts, ids): (Vec<Counts>, Vec<Vec<ObjectId>>) = ended.into_iter().unzip();
        self.ids = ids.into_iter().flatten().collect();
        Ok(Turn::of(kept, took, &counts, samples))
    }
}

fn share(store: &ObjectStore, full_bytes: u64, freed_bytes: u64) -> f64 {
    let kept = full_bytes - freed_bytes;
    (store.stats().object_bytes as f64 - kept as f64) / freed_bytes as f64
}

/// Samples the store a hundred times during the run, but at least once a second.
fn sample(
    plan: Plan,
    done: &AtomicU64,
    share: impl Fn() -> f64,
    observe: &mut dyn FnMut(&str),
) -> Vec<Sample> {
    let (began, mut samples, mut before) = (Instant::now(), Vec::<Sample>::new(), 0);
    let pause = Duration::from_secs_f64((plan.seconds / 100.0).clamp(0.001, 1.0));
    while began.elapsed().as_secs_f64() < plan.seconds {
        std::thread::sleep(pause);
        let (seconds, now) = (began.elapsed().as_secs_f64(), done.load(Ordering::Relaxed));
        let since = seconds - samples.last().map_or(0.0, |last| last.seconds);
        let per_second_m = (now - before) as f64 / since / 1e6;
        before = now;
        let sample = Sample { seconds, share: share(), per_second_m };
        observe(&format!(
            "churn, {seconds:.0} of {} s: {:.1} k/s, {:.1} % of the freed bytes serve",
            plan.seconds,
            1e3 * per_second_m,
            100.0 * sample.share
        ));
        samples.push(sample);
    }
    samples
}

/// Counters of a thread.
#[derive(Default)]
struct Counts {
    created: Recorder,
    refused: Recorder,
    removed: u64,
    slow: u64,
    slow_ns: u64,
}

/// Duration beyond which a create must have made room first.
const SLOW_NS: u64 = 1_000_000;

/// Amount that a thread removes for each create: one object, or as many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    One,
    AsManyBytes,
}

fn work(
    store: &ObjectStore,
    mut ids: Vec<ObjectId>,
    leaves: Leaves,
    thread: usize,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<(Counts, Vec<ObjectId>)> {
    let (mut counts, mut chance) = (Counts::default(), Random::new(to_u64(thread) + 1, 0));
    // Bytes created and not yet removed.
    let mut more = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        let mut gone = 0;
        for _ in 0..STEP {
            let bytes = drawn(&mut chance);
            let began = Instant::now();
            let made = create(store, bytes)?;
            let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if ns > SLOW_NS {
                counts.slow += u64::from(made.is_some());
                counts.slow_ns += ns;
            }
            let leave = if let Some(id) = made {
                counts.created.record(ns);
                ids.push(id);
                more += bytes.len();
                1
            } else {
                counts.refused.record(ns);
                (ids.len() / LEAVES).max(1).min(ids.len())
            };
            for left in 1_u64.. {
                let enough = match leaves {
                    Leaves::AsManyBytes if made.is_some() => more < LEN_MAX,
                    _ => left > to_u64(leave),
                };
                if enough || ids.is_empty() {
                    break;
                }
                more = more.saturating_sub(remove_one(store, &mut ids, &mut chance)?);
                gone += 1;
            }
        }
        counts.removed += gone;
        done.fetch_add(gone + STEP, Ordering::Relaxed);
    }
    Ok((counts, ids))
}

/// Returns the bytes of a later object, with a random length.
fn drawn(chance: &mut Random) -> &'static [u8] {
    static BYTES: [u8; LEN_MAX] = [7; LEN_MAX];
    &BYTES[..LEN_MIN + to_usize(chance.below(to_u64(LEN_MAX - LEN_MIN + 1)))]
}

/// Creates an object; `None` if there is no room.
fn create(store: &ObjectStore, bytes: &[u8]) -> Result<Option<ObjectId>> {
    match store.create_with(bytes) {
        Ok(id) => Ok(Some(id)),
        Err(ObjectError::OutOfMemory { .. }) => Ok(None),
        Err(error) => Err(refused(&error)),
    }
}

/// Removes a random object. Returns its length in bytes.
fn remove_one(store: &ObjectStore, ids: &mut Vec<ObjectId>, chance: &mut Random) -> Result<usize> {
    let id = ids.swap_remove(to_usize(chance.below(to_u64(ids.len()))));
    let len = store.size(id).and_then(|len| store.remove(id).map(|()| len));
    len.map_err(|error| refused(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_store_stays_full() {
        let plan = Plan { memory_bytes: 16 * MIB, threads: 2, seconds: 0.5 };
        let mut told = 0;
        let churn = measure(plan, &mut |_| told += 1).expect("in order");
        assert!(churn.full_bytes > 15 * MIB && churn.freed_bytes > 7 * MIB, "{churn:?}");
        assert!(churn.share_at_start > 0.5 && churn.share_at_end > 0.5, "{churn:?}");
        assert!(churn.turns.iter().all(|it| it.created > 0 && it.removed > 0), "{churn:?}");
        assert!(told > 5 && churn.turns.iter().all(|it| !it.samples.is_empty()));
        assert_eq!((churn.cells().len(), churn.picture().panels.len()), (8, 2));
    }
}

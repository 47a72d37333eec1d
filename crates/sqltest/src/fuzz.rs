//! `sqltest fuzz`: differential testing with random statements, run in Terrace and in another
//! database.
//!
//! A *group* of cases shares random tables; a *case* is a query, or changes and a query. Both are
//! determined by a seed and a number, so `--seed S --case N` repeats one. The cases run in a child
//! process, which this process supervises: if a signal ends it, the cases that were running have
//! failed.

mod cases;
mod cell;
mod compare;
pub(crate) mod dialect;
mod generate;
mod load;
pub(crate) mod node;
mod options;
mod pair;
pub(crate) mod peer;
mod plain;
pub(crate) mod random;
mod schema;
mod script;
mod setup;
mod shrink;
mod supervise;
mod tally;
mod types;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{CheckError, Result};
use cases::{GROUP_CASES, LARGE_SHARE, SETUP_CASES, case, is_large, setup, tables};
use dialect::Dialect;
use generate::Case;
pub use options::FuzzOptions;
use pair::{Pair, Verdict};
use peer::{Duck, Peer};
use plain::Plain;
use setup::Setup;
use supervise::Journal;
use tally::Tally;
use terrace_sys::sync::lock;

/// Searches for differences and prints them.
///
/// # Errors
/// [`CheckError::Found`] when a case failed.
pub async fn run(options: &FuzzOptions) -> Result<()> {
    match &options.journal {
        Some(journal) => work(options, Journal::open(journal)?).await,
        None => {
            let fresh = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let fresh = u64::from(fresh.subsec_nanos()) ^ fresh.as_secs();
            supervise::watch(options, options.seed.unwrap_or(fresh % 1_000_000_007))
        }
    }
}

async fn work(options: &FuzzOptions, journal: Journal) -> Result<()> {
    let began = Instant::now();
    let jobs = options.jobs.unwrap_or(2).max(1);
    let jobs = if options.case.is_some() { 1 } else { jobs };
    let shared = Arc::new(Shared {
        options: options.clone(),
        seed: options.seed.unwrap_or(0),
        deadline: began + Duration::from_secs(options.seconds),
        group: AtomicU64::new(0),
        failures: AtomicU64::new(0),
        panics: Mutex::default(),
        journal,
    });
    let workers = (0..jobs).map(|worker| tokio::spawn(Arc::clone(&shared).worker(worker)));
    let workers: Vec<_> = workers.collect();
    let mut tally = Tally::default();
    for worker in workers {
        let done = worker.await.map_err(|error| CheckError::Rows(format!("a worker: {error}")))?;
        tally.add(done?);
    }
    tally.print(began.elapsed(), options.examples);
    match tally.failed {
        0 => Ok(()),
        failed => Err(CheckError::Found(format!("fuzz: {failed} failed; seed {}", shared.seed))),
    }
}

/// The state that workers share.
struct Shared {
    options: FuzzOptions,
    seed: u64,
    deadline: Instant,
    group: AtomicU64,
    failures: AtomicU64,
    /// Source locations of panics that have been reported.
    panics: Mutex<BTreeSet<String>>,
    journal: Journal,
}

impl Shared {
    fn ends(&self) -> bool {
        Instant::now() >= self.deadline
            || self.failures.load(Ordering::Relaxed) >= self.options.failures
    }

    async fn worker(self: Arc<Self>, worker: usize) -> Result<Tally> {
        let mut tally = Tally::default();
        if let Some(case) = self.options.case {
            self.group(case / GROUP_CASES, Some(case), worker, &mut tally).await?;
            return Ok(tally);
        }
        while !self.ends() {
            let group = self.group.fetch_add(1, Ordering::Relaxed);
            self.group(group, None, worker, &mut tally).await?;
        }
        Ok(tally)
    }

    /// Runs the cases of a group, or only the case `only`.
    async fn group(
        &self,
        group: u64,
        only: Option<u64>,
        worker: usize,
        tally: &mut Tally,
    ) -> Result<()> {
        let (tables, large) = (tables(self.seed, group), is_large(group));
        let first = group * GROUP_CASES;
        let mut pair =
            Pair::open(&setup(self.seed, first, &tables), tables.clone(), peer()?).await?;
        let mut set = None;
        for number in first..first + GROUP_CASES {
            let left_out = large && !number.is_multiple_of(LARGE_SHARE);
            if only.is_some_and(|only| only != number) || (only.is_none() && left_out) {
                continue;
            }
            if only.is_none() && self.ends() {
                break;
            }
            if set != Some(number / SETUP_CASES) {
                pair.set(&setup(self.seed, number, &tables)).await?;
                set = Some(number / SETUP_CASES);
            }
            let case = case(self.seed, number, &tables);
            self.journal.note(worker, number)?;
            let verdict = pair.verdict(&case).await?;
            tally.count(&verdict, || {
                let texts = case.statements.iter().map(|it| it.render(Dialect::Terrace));
                texts.collect::<Vec<_>>().join("; ")
            });
            let is_unfinished = verdict.is_unfinished();
            if verdict.is_failure() && self.is_new(&verdict) {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let setup = setup(self.seed, number, &tables);
                self.report(&mut pair, &setup, number, case, verdict).await?;
                // Shrinking may have replaced the tables.
                if !is_unfinished {
                    pair.load(tables.clone()).await?;
                }
            }
            // Every group has an engine of its own.
            if is_unfinished {
                break;
            }
        }
        self.journal.note(worker, supervise::IDLE)
    }

    /// False for a panic at a source location that has been reported already.
    fn is_new(&self, verdict: &Verdict) -> bool {
        let Verdict::Panicked(message) = verdict else { return true };
        let place = message.rsplit(" at ").next().unwrap_or_default().to_owned();
        lock(&self.panics).insert(place)
    }

    /// Shrinks a failing case and prints it.
    async fn report(
        &self,
        pair: &mut Pair,
        setup: &Setup,
        number: u64,
        case: Case,
        verdict: Verdict,
    ) -> Result<()> {
        let limit = Duration::from_secs(self.options.shrink_seconds);
        let shrunk = shrink::shrink(pair, case, verdict, limit).await?;
        let peer = pair.peer_dialect();
        let script = script::script(setup, &shrunk.tables, &shrunk.case, &shrunk.verdict, peer);
        println!("\n-- FAILED: cargo x fuzz --seed {} --case {number}\n{script}", self.seed);
        Ok(())
    }
}

/// Starts DuckDB, or falls back to DataFusion if that fails.
fn peer() -> Result<Peer> {
    match Duck::start() {
        Ok(duck) => Ok(Peer::Duck(Box::new(duck))),
        Err(error) => {
            eprintln!(
                "WARNING: no DuckDB, comparing with DataFusion alone, which shares most of the \
                 code: {error}"
            );
            Ok(Peer::Plain(Box::new(Plain::new()?)))
        }
    }
}

#[cfg(test)]
mod tests;

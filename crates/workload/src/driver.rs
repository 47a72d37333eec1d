//! Runs a workload on threads and measures it.
//!
//! What the driver adds to an operation: a look at a word that rarely changes, a counter that only
//! its thread writes, and for each operation whose latency is taken two looks at the clock. That is
//! 7 ns where the latency of one operation of 16 is taken and 58 where it is that of each, on a
//! busy machine; `cargo run --release -p terrace-workload --example run -- null --batch 16` tells.

mod csv;
mod meter;
mod sample;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use terrace_pool::Pool;

use crate::error::{Result, WorkloadError};
use meter::Meter;
use sample::Sampler;

pub use csv::write_csv;
pub use meter::KINDS_MAX;
pub use sample::{Sample, TierSample};

/// Threads that a run can have.
pub const THREADS_MAX: usize = 1024;

/// How long the driver may take to notice that it should stop.
const TICK: Duration = Duration::from_millis(50);
/// A run without an end in time ends after so long at the latest.
const RUN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a thread of a run does again and again.
pub trait Workload: Sync {
    /// What a thread keeps from one step to the next, such as its random numbers.
    type Worker;

    /// The kinds of operations, at most [`KINDS_MAX`]; a step names its kind by the place here.
    fn kinds(&self) -> &'static [&'static str];

    /// Of how many steps the latency of one is taken.
    fn latency_every(&self) -> u32;

    /// The state of one more thread.
    fn worker(&self) -> Self::Worker;

    /// Does some operations.
    ///
    /// # Errors
    /// Whatever ends the run.
    fn step(&self, worker: &mut Self::Worker) -> Result<Step>;
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which kind of operations, as a place in [`Workload::kinds`].
    pub kind: usize,
    /// How many of them.
    pub operations: u64,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After this time.
    Time(Duration),
    /// After so many operations of all threads together, and what their last steps do beyond.
    Operations(u64),
}

/// How a workload is run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Threads that work, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// How long they work before they are measured.
    pub warm_up: Duration,
    /// How long they are measured.
    pub length: Length,
    /// The time between two samples; not zero.
    pub interval: Duration,
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Report {
    /// The kinds of operations.
    pub kinds: &'static [&'static str],
    /// What happened in each interval; the last one is shorter or longer than the others.
    pub samples: Vec<Sample>,
    /// What happened from the end of the warm-up to the end.
    pub total: Sample,
}

/// What threads should be doing.
#[derive(Debug)]
struct Phase(AtomicU8);

impl Phase {
    /// Everybody waits for the first sample to begin.
    const WAIT: u8 = 0;
    const WARM_UP: u8 = 1;
    const MEASURE: u8 = 2;
    const STOP: u8 = 3;

    fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Relaxed) == phase
    }

    /// Phases only go up: who begins to measure does not go on with a run that stopped.
    fn reach(&self, phase: u8) {
        self.0.fetch_max(phase, Ordering::Relaxed);
    }
}

/// Stops the run when its thread panics.
struct StopOnPanic<'a>(&'a Phase);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.reach(Phase::STOP);
        }
    }
}

/// Runs a workload until its end, an error, or until somebody sets `stop`. `observe` sees every
/// sample as soon as it is taken, but for the last one.
///
/// # Errors
/// [`WorkloadError::Config`] outside the limits of [`RunConfig`]; the first error of a step, after
/// which all threads stop; [`WorkloadError::Panicked`].
pub fn run<W: Workload>(
    workload: &W,
    pool: &Pool,
    config: &RunConfig,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&Sample),
) -> Result<Report> {
    check(workload, config)?;
    let phase = Phase(AtomicU8::new(Phase::WAIT));
    let meters: Vec<Meter> = (0..config.threads).map(|_| Meter::default()).collect();
    let (sender, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(&meters)
            .map(|(number, meter)| {
                let (sender, phase) = (sender.clone(), &phase);
                let quota = quota(config, number);
                scope.spawn(move || work(workload, phase, meter, quota, &sender))
            })
            .collect();
        drop(sender);
        let mut conductor = Conductor { config, stop, phase: &phase, ends, error: None };
        conductor.warm_up();
        let mut sampler = Sampler::start(pool, &meters, workload.kinds().len());
        phase.reach(Phase::MEASURE);
        let samples = conductor.measure(&mut sampler, observe);
        let joined = threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>();
        if joined.iter().any(Result::is_err) {
            return Err(WorkloadError::Panicked);
        }
        match conductor.error {
            Some(error) => Err(error),
            None => Ok(Report { kinds: workload.kinds(), samples, total: sampler.total() }),
        }
    })
}

fn check<W: Workload>(workload: &W, config: &RunConfig) -> Result<()> {
    let wrong = |what: String| Err(WorkloadError::Config(what));
    if !(1..=THREADS_MAX).contains(&config.threads) {
        return wrong(format!("a run has 1 to {THREADS_MAX} threads, not {}", config.threads));
    }
    if config.interval.is_zero() {
        return wrong("the interval of samples is zero; a second is usual".into());
    }
    let kinds = workload.kinds().len();
    if !(1..=KINDS_MAX).contains(&kinds) {
        return wrong(format!("a workload has 1 to {KINDS_MAX} kinds of operations, not {kinds}"));
    }
    Ok(())
}

/// How many of the operations a thread does.
fn quota(config: &RunConfig, thread: u64) -> u64 {
    let threads = config.threads as u64;
    match config.length {
        Length::Time(_) => u64::MAX,
        Length::Operations(all) => all / threads + u64::from(thread < all % threads),
    }
}

/// What a thread does until its end, which it sends.
fn work<W: Workload>(
    workload: &W,
    phase: &Phase,
    meter: &Meter,
    quota: u64,
    sender: &Sender<Result<()>>,
) {
    let _stop = StopOnPanic(phase);
    // Nobody receives any more when the run has failed already.
    drop(sender.send(steps(workload, phase, meter, quota)));
}

fn steps<W: Workload>(workload: &W, phase: &Phase, meter: &Meter, quota: u64) -> Result<()> {
    let mut worker = workload.worker();
    while phase.is(Phase::WAIT) {
        std::thread::yield_now();
    }
    while phase.is(Phase::WARM_UP) {
        workload.step(&mut worker)?;
    }
    let every = workload.latency_every().max(1);
    let (mut done, mut turn) = (0_u64, 0);
    while done < quota && phase.is(Phase::MEASURE) {
        let step = if turn == 0 {
            turn = every;
            let began = Instant::now();
            let step = workload.step(&mut worker)?;
            meter.latency(began.elapsed());
            step
        } else {
            workload.step(&mut worker)?
        };
        turn -= 1;
        meter.count(step);
        done += step.operations;
    }
    Ok(())
}

/// The thread that started the run, which waits, samples and says when it is over.
struct Conductor<'a> {
    config: &'a RunConfig,
    stop: &'a AtomicBool,
    phase: &'a Phase,
    ends: Receiver<Result<()>>,
    error: Option<WorkloadError>,
}

impl Conductor<'_> {
    fn warm_up(&mut self) {
        if self.config.warm_up.is_zero() {
            return;
        }
        self.phase.reach(Phase::WARM_UP);
        let end = Instant::now() + self.config.warm_up.min(RUN_MAX);
        while Instant::now() < end && !self.phase.is(Phase::STOP) {
            if !self.wait(end) {
                break;
            }
        }
    }

    fn measure(
        &mut self,
        sampler: &mut Sampler<'_>,
        observe: &mut dyn FnMut(&Sample),
    ) -> Vec<Sample> {
        let began = Instant::now();
        let end = match self.config.length {
            Length::Time(time) => began + time.min(RUN_MAX),
            Length::Operations(_) => began + RUN_MAX,
        };
        let mut samples = Vec::new();
        let mut next = began + self.config.interval;
        while self.wait(next.min(end)) {
            let now = Instant::now();
            if now >= end {
                self.phase.reach(Phase::STOP);
            } else if now >= next && self.phase.is(Phase::MEASURE) {
                let sample = sampler.sample();
                observe(&sample);
                samples.push(sample);
                next += self.config.interval;
            }
        }
        samples.push(sampler.sample());
        samples
    }

    /// Waits until a time, shortly, or until a thread ends; whether threads are left.
    fn wait(&mut self, until: Instant) -> bool {
        let longest = until.saturating_duration_since(Instant::now()).min(TICK);
        match self.ends.recv_timeout(longest) {
            Ok(Err(error)) => {
                self.error.get_or_insert(error);
                self.phase.reach(Phase::STOP);
            }
            Ok(Ok(())) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        if self.stop.load(Ordering::Relaxed) {
            self.phase.reach(Phase::STOP);
        }
        true
    }
}

//! Runs a workload on threads and measures it.
//!
//! Overhead of the driver per operation: one load of a word that rarely changes, one counter that
//! only its own thread writes, and two clock readings for each operation whose latency is taken. On
//! a busy machine that is 7 ns if the latency of one operation in 16 is taken and 58 ns if that of
//! every operation is; `cargo run --release -p terrace-workload --example run -- null --batch 16`
//! measures it.

mod csv;
mod meter;
mod report;
mod sample;
#[cfg(test)]
mod tests;
mod workload;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use terrace_pool::Pool;

use crate::error::{Result, WorkloadError};
use meter::Meter;
use sample::Sampler;

pub use csv::write_csv;
pub use meter::KINDS_MAX;
pub use report::Report;
pub use sample::{Sample, TierSample};
pub use workload::{Step, Workload};

/// Maximum number of threads of a run.
pub const THREADS_MAX: usize = 1024;

/// Maximum delay until the driver notices a request to stop.
const TICK: Duration = Duration::from_millis(50);
/// Upper bound for the duration of a run, also for one of a given number of operations.
const RUN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Length of a run, in time or in operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The run ends after this time.
    Time(Duration),
    /// The run ends after this many operations of all threads together. Each thread completes its
    /// last step, so the total can be higher.
    Operations(u64),
}

/// Configuration of a run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Number of threads that run the workload, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Time that the threads run the workload before measurement begins.
    pub warm_up: Duration,
    /// Length of the measured part of the run.
    pub length: Length,
    /// Time between two samples; not zero.
    pub interval: Duration,
}

/// Phase of the run, which all threads read.
#[derive(Debug)]
struct Phase(AtomicU8);

impl Phase {
    /// Threads wait for the warm-up or the measurement to begin.
    const WAIT: u8 = 0;
    const WARM_UP: u8 = 1;
    const MEASURE: u8 = 2;
    const STOP: u8 = 3;

    fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Relaxed) == phase
    }

    /// Advances the phase; never goes back, so the start of the measurement cannot resume a run
    /// that was stopped.
    fn reach(&self, phase: u8) {
        self.0.fetch_max(phase, Ordering::Relaxed);
    }
}

/// Guard held by each thread: stops the run if the thread panics.
struct StopOnPanic<'a>(&'a Phase);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.reach(Phase::STOP);
        }
    }
}

/// Runs a workload until its configured length, an error, or until the caller sets `stop`.
/// `observe` is called with every sample as soon as it is taken, except the last one.
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

/// Number of operations that a thread has to perform: its share of [`Length::Operations`].
fn quota(config: &RunConfig, thread: u64) -> u64 {
    let threads = config.threads as u64;
    match config.length {
        Length::Time(_) => u64::MAX,
        Length::Operations(all) => all / threads + u64::from(thread < all % threads),
    }
}

/// Body of a thread: runs the steps and sends the result.
fn work<W: Workload>(
    workload: &W,
    phase: &Phase,
    meter: &Meter,
    quota: u64,
    sender: &Sender<Result<()>>,
) {
    let _stop = StopOnPanic(phase);
    // The receiver is gone if the run has failed already.
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

/// Coordinator of the run, on the thread that called [`run`]: advances the phases, takes samples
/// and stops the run.
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

    /// Waits until the given time, until a thread ends, or for [`TICK`], whichever comes first.
    /// Returns true if threads are still running.
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

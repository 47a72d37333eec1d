//! Search for programs that fail: random ones, and mutations of those that saw something new.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terrace_testkit::Rng;

use crate::program::{OP_BYTES, Op, decode, to_hex};
use crate::world::{Fault, Verdict, World};

/// Most operations of a program.
const OPS_MAX: usize = if cfg!(miri) { 40 } else { 300 };
/// Most programs kept for mutation.
const KEPT_MAX: usize = 2000;
/// Most runs of the minimization of a program.
const SHORTER_RUNS_MAX: u64 = 3000;
/// Time after which a program counts as hung.
const HANG: Duration = Duration::from_secs(60);

/// Result of a program.
pub struct Outcome {
    pub verdict: Verdict<()>,
    pub seen: HashSet<u64>,
    pub trace: Vec<String>,
}

/// A program that failed, minimized, and the reason.
pub struct Failure {
    pub program: Vec<u8>,
    pub why: String,
}

type Handed = (World, Verdict<()>);

/// Runs programs: most operations on the calling thread, some on another.
pub struct Runner {
    to_other: Option<Sender<(World, Op)>>,
    from_other: Receiver<Handed>,
    other: Option<JoinHandle<()>>,
    fault: Option<Fault>,
}

impl Runner {
    pub fn new(fault: Option<Fault>) -> Self {
        let (to_other, work) = channel::<(World, Op)>();
        let (done, from_other) = channel();
        let other = std::thread::spawn(move || {
            for (mut world, op) in work {
                let verdict = caught(|| world.run(op));
                if done.send((world, verdict)).is_err() {
                    return;
                }
            }
        });
        Self { to_other: Some(to_other), from_other, other: Some(other), fault }
    }

    /// Runs a program on a store of its own.
    pub fn run(&self, program: &[u8], traced: bool) -> Outcome {
        let (setup, ops) = decode(program);
        let world = caught(|| World::new(setup, self.fault, traced));
        let mut world = match world {
            Ok(world) => world,
            Err(why) => {
                return Outcome { verdict: Err(why), seen: HashSet::new(), trace: Vec::new() };
            }
        };
        if let Some(trace) = &mut world.trace {
            trace.push(format!("{setup:?}"));
        }
        let mut verdict = Ok(());
        for op in ops {
            (world, verdict) = self.step(world, op);
            if verdict.is_err() {
                break;
            }
        }
        if verdict.is_ok() {
            verdict = caught(|| world.end());
        }
        let trace = world.trace.take().unwrap_or_default();
        Outcome { verdict, seen: std::mem::take(&mut world.seen), trace }
    }

    fn step(&self, mut world: World, op: Op) -> Handed {
        if let Some(trace) = &mut world.trace {
            trace.push(format!("{op:?}"));
        }
        if !op.elsewhere {
            let verdict = caught(|| world.run(op));
            return (world, verdict);
        }
        let sent = self.to_other.as_ref().is_some_and(|other| other.send((world, op)).is_ok());
        assert!(sent, "the other thread is there as long as this");
        self.from_other.recv().expect("the other thread catches panics")
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.to_other = None;
        if let Some(other) = self.other.take() {
            other.join().expect("the other thread catches panics");
        }
    }
}

fn caught<T>(work: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("of no text")))
    })
}

/// A program, and the time at which it began.
type Running = (Instant, Vec<u8>);

/// Watchdog that prints a program that hangs, and ends the process.
struct Watch {
    running: Arc<Mutex<Option<Running>>>,
    end: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
}

impl Watch {
    fn new() -> Self {
        let running = Arc::new(Mutex::new(None::<Running>));
        let (end, ended) = channel::<()>();
        let watched = Arc::clone(&running);
        let watcher = std::thread::spawn(move || {
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let running = watched.lock().expect("no panic");
                if let Some((since, program)) = running.as_ref()
                    && since.elapsed() > HANG
                    && !cfg!(miri)
                {
                    eprintln!("a program hangs:\n{}", again(program));
                    std::process::abort();
                }
            }
        });
        Self { running, end: Some(end), watcher: Some(watcher) }
    }

    fn begin(&self, program: &[u8]) {
        *self.running.lock().expect("no panic") = Some((Instant::now(), program.to_vec()));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end = None;
        if let Some(watcher) = self.watcher.take() {
            watcher.join().expect("no panic");
        }
    }
}

/// A search, and the programs that it keeps.
pub struct Search {
    rng: Rng,
    runner: Runner,
    watch: Watch,
    kept: Vec<Vec<u8>>,
    seen: HashSet<u64>,
    /// Number of programs run.
    pub runs: u64,
}

impl Search {
    pub fn new(seed: u64, fault: Option<Fault>) -> Self {
        let (rng, runner, watch) = (Rng::new(seed), Runner::new(fault), Watch::new());
        Self { rng, runner, watch, kept: Vec::new(), seen: HashSet::new(), runs: 0 }
    }

    /// Number of different observations.
    pub fn seen(&self) -> usize {
        self.seen.len()
    }

    /// Runs programs as long as `goes_on` allows and none fails.
    pub fn look(&mut self, goes_on: impl Fn(u64) -> bool) -> Option<Failure> {
        while goes_on(self.runs) {
            let program = self.next();
            let outcome = self.run(&program);
            if let Err(why) = outcome.verdict {
                return Some(self.shorter(program, why));
            }
            let known = self.seen.len();
            self.seen.extend(outcome.seen);
            if self.seen.len() > known {
                if self.kept.len() == KEPT_MAX {
                    let n = self.rng.index(KEPT_MAX);
                    self.kept.swap_remove(n);
                }
                self.kept.push(program);
            }
        }
        None
    }

    fn run(&mut self, program: &[u8]) -> Outcome {
        self.runs += 1;
        self.watch.begin(program);
        self.runner.run(program, false)
    }

    fn next(&mut self) -> Vec<u8> {
        if self.kept.is_empty() || self.rng.one_in(4) {
            let ops = 2 + self.rng.index(OPS_MAX / 2);
            return self.random(ops);
        }
        let mut program = self.any();
        for _ in 0..=self.rng.index(6) {
            self.mutate(&mut program);
        }
        program.truncate(OPS_MAX * OP_BYTES);
        program
    }

    fn random(&mut self, ops: usize) -> Vec<u8> {
        let mut program = vec![0; ops * OP_BYTES];
        self.rng.fill(&mut program);
        program
    }

    /// Returns one of the programs kept, more likely one of the last.
    fn any(&mut self) -> Vec<u8> {
        let all = self.kept.len();
        let from = if self.rng.one_in(2) { all.saturating_sub(32) } else { 0 };
        self.kept[from + self.rng.index(all - from)].clone()
    }

    /// Returns the offset of a random operation after the setup.
    fn place(&mut self, program: &[u8]) -> usize {
        OP_BYTES * (1 + self.rng.index((program.len() / OP_BYTES).max(2) - 1))
    }

    fn mutate(&mut self, program: &mut Vec<u8>) {
        if program.len() < 2 * OP_BYTES {
            program.extend(self.random(4));
        }
        let at = self.place(program);
        let some = (1 + self.rng.index(8)) * OP_BYTES;
        match self.rng.below(8) {
            0 => {
                let n = self.rng.index(program.len());
                program[n] = self.rng.below(256).to_le_bytes()[0];
            }
            1 => {
                let byte = self.rng.index(OP_BYTES);
                program[at + byte] = program[at + byte].wrapping_add(1);
            }
            2 => drop(program.drain(at..(at + some).min(program.len()))),
            3 => {
                let new = self.random(some / OP_BYTES);
                program.splice(at..at, new);
            }
            4 => {
                let piece = program[at..(at + some).min(program.len())].to_vec();
                let times = 1 + self.rng.index(6);
                program.splice(at..at, piece.repeat(times));
            }
            5 => {
                let other = self.any();
                let from = self.place(&other).min(other.len());
                program.truncate(at);
                program.extend_from_slice(&other[from..]);
            }
            6 => {
                // The same operation on other objects, several times.
                let mut op = program[at..at + OP_BYTES].to_vec();
                let times = 1 + self.rng.index(24);
                for _ in 0..times {
                    op[2] = op[2].wrapping_add(1);
                    program.splice(at..at, op.iter().copied());
                }
            }
            _ => {
                let from = self.place(program);
                let op: Vec<u8> = program[from..from + OP_BYTES].to_vec();
                program.splice(at..at, op);
            }
        }
    }

    /// Minimizes a program: removes operations, and sets numbers to zero, as long as it fails.
    fn shorter(&mut self, program: Vec<u8>, why: String) -> Failure {
        let mut failure = Failure { program, why };
        let end = self.runs + SHORTER_RUNS_MAX;
        loop {
            let before = failure.program.clone();
            self.leave_out(&mut failure, end);
            self.make_zero(&mut failure, end);
            if failure.program == before || self.runs >= end {
                return failure;
            }
        }
    }

    fn leave_out(&mut self, failure: &mut Failure, end: u64) {
        let mut piece = failure.program.len().next_power_of_two();
        while piece >= OP_BYTES {
            piece = (piece / 2).next_multiple_of(OP_BYTES);
            let mut at = OP_BYTES;
            while at < failure.program.len() && self.runs < end {
                let mut less = failure.program.clone();
                less.drain(at..(at + piece).min(less.len()));
                if !self.fails(less, failure) {
                    at += piece;
                }
            }
            if piece == OP_BYTES {
                return;
            }
        }
    }

    fn make_zero(&mut self, failure: &mut Failure, end: u64) {
        for n in 0..failure.program.len() {
            let mut zero = failure.program.clone();
            if std::mem::replace(&mut zero[n], 0) != 0 && self.runs < end {
                self.fails(zero, failure);
            }
        }
    }

    fn fails(&mut self, program: Vec<u8>, failure: &mut Failure) -> bool {
        match self.run(&program).verdict {
            Ok(()) => false,
            Err(why) => {
                *failure = Failure { program, why };
                true
            }
        }
    }
}

impl Failure {
    /// Returns a report of the failure.
    pub fn report(&self, fault: Option<Fault>) -> String {
        let trace = Runner::new(fault).run(&self.program, true).trace.join("\n");
        format!("{}\n\n{trace}\n\n{}", self.why, again(&self.program))
    }
}

fn again(program: &[u8]) -> String {
    let word = to_hex(program);
    format!(
        "to run it again: TERRACE_FUZZ_PROGRAM={word} cargo test --release -p terrace-objects \
         --test fuzz a_program_that_is_named"
    )
}

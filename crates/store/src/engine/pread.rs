//! Positioned system calls (`pread`, `pwrite`), with several threads for a large batch.

use std::sync::Mutex;
use std::thread;

use terrace_sys::file::DirectFile;
use terrace_sys::sync::lock;
use terrace_sys::transfer::run_len;

use super::Engine;
use crate::blocks::{Done, Io};

/// Maximum number of threads of one batch, including the caller. The device of the reference
/// machine is saturated by four 256 KiB reads in flight.
const THREADS_MAX: usize = 4;
/// Minimum bytes per thread: they keep the device busy for some 200 us, which justifies the 30 us
/// that starting a thread costs.
const BYTES_PER_THREAD_MIN: usize = 256 << 10;
/// Minimum number of contiguous runs per thread. Short transfers use the processors as much as the
/// device: 1.5 ms of them justify a thread even if the processors are busy.
const RUNS_PER_THREAD_MIN: usize = 32;

pub(super) struct Pread;

impl Engine for Pread {
    fn run(&self, file: &DirectFile, batch: &mut [Io<'_>], done: &Done<'_>) {
        let threads = threads_worth(batch);
        let queue = Mutex::new(batch);
        if threads == 1 {
            return drain(file, &queue, done);
        }
        thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be started is no loss: the others do its share.
                let builder = thread::Builder::new().name("terrace-pread".into());
                drop(builder.spawn_scoped(scope, || drain(file, &queue, done)));
            }
            drain(file, &queue, done);
        });
    }

    fn name(&self) -> &'static str {
        "pread"
    }
}

fn threads_worth(batch: &[Io<'_>]) -> usize {
    let (mut bytes, mut runs, mut rest) = (0, 0, batch);
    while !rest.is_empty() {
        let (run, others) = rest.split_at(run_len(rest));
        bytes += run.iter().map(|io| io.buffer.len()).sum::<usize>();
        (runs, rest) = (runs + 1, others);
    }
    let worth = (bytes / BYTES_PER_THREAD_MIN).max(runs / RUNS_PER_THREAD_MIN);
    worth.min(runs).clamp(1, THREADS_MAX)
}

/// Performs runs of the batch until none is left.
fn drain(file: &DirectFile, queue: &Mutex<&mut [Io<'_>]>, done: &Done<'_>) {
    while let Some(run) = next_run(queue) {
        file.transfer(run);
        run.iter_mut().filter(|io| io.result.is_ok()).for_each(done);
    }
}

fn next_run<'b, 'd>(queue: &Mutex<&'b mut [Io<'d>]>) -> Option<&'b mut [Io<'d>]> {
    let mut rest = lock(queue);
    let batch = std::mem::take(&mut *rest);
    let (run, others) = batch.split_at_mut(run_len(batch));
    *rest = others;
    (!run.is_empty()).then_some(run)
}

//! Asynchronous transfers of a pager: by its ring if it has one and the source is a file, else by
//! threads over the file or [`Blocks`].

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use terrace_store::{Blocks, Io};
use terrace_sys::event_loop::EventLoop;
use terrace_sys::event_ring::{Doorbell, Piece};
use terrace_sys::file::DirectFile;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

/// Threads over a source that is not a file.
const THREADS: usize = 4;

/// Completion of a transfer: its token, and the bytes that were moved.
pub(crate) type Ended = (u64, io::Result<usize>);

pub(crate) enum Transfers {
    Ring(Arc<DirectFile>),
    Threads(Threads),
}

impl Transfers {
    /// Opens the source for `depth` transfers at a time; threads ring `bell` on each completion.
    pub(crate) fn open(
        blocks: &Arc<dyn Blocks>,
        has_ring: bool,
        depth: usize,
        bell: &Arc<Doorbell>,
    ) -> io::Result<Self> {
        Ok(match blocks.file() {
            Some(file) if has_ring => Self::Ring(file),
            Some(file) => Self::Threads(Threads::start(&Way::File(file), depth, bell)?),
            None => Self::Threads(Threads::start(&Way::Blocks(Arc::clone(blocks)), THREADS, bell)?),
        })
    }

    /// Starts a transfer. Until it has ended, no other code may use the bytes of the piece, or for
    /// a write change them.
    pub(crate) fn start(
        &self,
        waiting: &mut EventLoop,
        piece: Piece,
        is_write: bool,
        token: u64,
    ) -> io::Result<()> {
        match self {
            Self::Ring(file) => {
                let ring = waiting.ring().ok_or(io::ErrorKind::Unsupported)?;
                match is_write {
                    true => ring.write(file, &piece, token),
                    false => ring.read(file, &piece, token),
                }
            }
            Self::Threads(threads) => {
                threads.jobs.start(Job { piece, is_write, token });
                Ok(())
            }
        }
    }

    /// Returns the completions of the threads since the last call.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        match self {
            Self::Ring(_) => Vec::new(),
            Self::Threads(threads) => std::mem::take(&mut *lock(&threads.ended)),
        }
    }
}

impl Transfers {
    /// Drops the transfers without waiting for those in flight: each owns the memory that it needs.
    pub(crate) fn leave(self) {
        if let Self::Threads(mut threads) = self {
            threads.workers.clear();
        }
    }
}

struct Job {
    piece: Piece,
    is_write: bool,
    token: u64,
}

/// Reads served before a queued write; a thread is more often blocked on a read.
const READS_FIRST: usize = 3;

/// Queue of the threads.
#[derive(Default)]
struct Jobs {
    queues: Mutex<Queues>,
    changed: Condvar,
}

#[derive(Default)]
struct Queues {
    reads: VecDeque<Job>,
    writes: VecDeque<Job>,
    /// Reads served since the last write.
    reads_first: usize,
    over: bool,
}

impl Queues {
    fn next(&mut self) -> Option<Job> {
        let is_due = self.reads_first >= READS_FIRST && !self.writes.is_empty();
        match self.reads.pop_front_if(|_| !is_due) {
            Some(read) => {
                self.reads_first += 1;
                Some(read)
            }
            None => {
                self.reads_first = 0;
                self.writes.pop_front()
            }
        }
    }
}

impl Jobs {
    fn start(&self, job: Job) {
        let mut queues = lock(&self.queues);
        let queue = if job.is_write { &mut queues.writes } else { &mut queues.reads };
        queue.push_back(job);
        drop(queues);
        self.changed.notify_one();
    }

    /// Waits for the next job; `None` when all jobs are done and the queue has been ended.
    fn next(&self) -> Option<Job> {
        let mut queues = lock(&self.queues);
        loop {
            let job = queues.next();
            if job.is_some() || queues.over {
                return job;
            }
            queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        lock(&self.queues).over = true;
        self.changed.notify_all();
    }
}

/// Target of the threads' transfers.
#[derive(Clone)]
enum Way {
    /// File, by calls that may move fewer bytes than requested, as a ring does.
    File(Arc<DirectFile>),
    Blocks(Arc<dyn Blocks>),
}

pub(crate) struct Threads {
    jobs: Arc<Jobs>,
    ended: Arc<Mutex<Vec<Ended>>>,
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(way: &Way, count: usize, bell: &Arc<Doorbell>) -> io::Result<Self> {
        let (jobs, ended) = (Arc::<Jobs>::default(), Arc::<Mutex<Vec<Ended>>>::default());
        let mut threads =
            Self { jobs: Arc::clone(&jobs), ended: Arc::clone(&ended), workers: vec![] };
        for _ in 0..count {
            let (way, bell) = (way.clone(), Arc::clone(bell));
            let (jobs, ended) = (Arc::clone(&jobs), Arc::clone(&ended));
            let worker = thread::Builder::new()
                .name("terrace-region-io".into())
                .spawn(move || work(&way, &jobs, &ended, &bell))?;
            threads.workers.push(worker);
        }
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs.end();
        for worker in self.workers.drain(..) {
            // The panic hook has reported a panic; the thread's transfers are over.
            let _ = worker.join();
        }
    }
}

fn work(way: &Way, jobs: &Jobs, ended: &Mutex<Vec<Ended>>, bell: &Doorbell) {
    while let Some(job) = jobs.next() {
        let token = job.token;
        let result = catch_unwind(AssertUnwindSafe(|| way.run(&job)))
            .unwrap_or_else(|_| Err(io::Error::other("the source has panicked")));
        lock(ended).push((token, result));
        bell.ring();
    }
}

impl Way {
    fn run(&self, job: &Job) -> io::Result<usize> {
        let Piece { mapping, at, len, offset, .. } = &job.piece;
        debug_assert!(at + len <= mapping.len());
        if job.is_write {
            // SAFETY: the piece lies inside of its mapping, whose pages are present, and the caller
            // that started the transfer promised that no thread changes its bytes until it has
            // ended.
            return self.write(*offset, unsafe {
                std::slice::from_raw_parts(mapping.as_ptr().add(*at), *len)
            });
        }
        // SAFETY: as above, and no other thread reads or writes the bytes meanwhile.
        self.read(*offset, unsafe {
            std::slice::from_raw_parts_mut(mapping.as_ptr().add(*at), *len)
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Way::File(file) => file.write_some_at(offset, bytes),
            Way::Blocks(blocks) => {
                blocks.ensure(offset + to_u64(bytes.len()))?;
                run_all(&**blocks, Io::write(offset, bytes), bytes.len())
            }
        }
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let len = bytes.len();
        match self {
            Way::File(file) => file.read_some_at(offset, bytes),
            Way::Blocks(blocks) => run_all(&**blocks, Io::read(offset, bytes), len),
        }
    }
}

fn run_all(blocks: &dyn Blocks, io: Io<'_>, len: usize) -> io::Result<usize> {
    let mut batch = [io];
    blocks.run(&mut batch, &|_| {});
    let [io] = batch;
    io.result.map(|()| len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_sys::map::Mapping;

    #[test]
    fn reads_come_first_but_writes_come() {
        let jobs = Jobs::default();
        let mapping = Arc::new(Mapping::reserve(4096).expect("addresses"));
        let start = |token, is_write| {
            let mapping = Arc::clone(&mapping);
            let piece = Piece { mapping, at: 0, len: 4096, offset: 0, may_fault: false };
            jobs.start(Job { piece, is_write, token });
        };
        let next = || jobs.next().map(|job| job.token);
        for (token, is_write) in [(0, true), (1, true), (2, false), (3, false)] {
            start(token, is_write);
        }
        assert_eq!([next(), next()], [Some(2), Some(3)]);
        // There is always another read in the queue.
        let mut order = Vec::new();
        for token in 4..10 {
            start(token, false);
            order.extend(next());
        }
        assert_eq!(order, [4, 0, 5, 6, 7, 1]);
        jobs.end();
        assert_eq!([next(), next(), next()], [Some(8), Some(9), None]);
    }
}

//! Transfers that a pager does not wait for: by its ring where the source is a file, else by
//! threads over [`Blocks`].

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use terrace_sys::event_ring::{Doorbell, EventRing, Piece};
use terrace_sys::file::DirectFile;
use terrace_tier::store::{Blocks, Io};

use crate::lock;

/// Threads over a source that is no file.
const THREADS: usize = 4;

/// The end of a transfer: its token, and the bytes that moved.
pub(crate) type Ended = (u64, io::Result<usize>);

pub(crate) enum Transfers {
    Ring(Arc<DirectFile>),
    Threads(Threads),
}

impl Transfers {
    /// The way to the source; ends of transfers by threads ring `bell`.
    pub(crate) fn open(blocks: &Arc<dyn Blocks>, bell: &Arc<Doorbell>) -> io::Result<Self> {
        match blocks.file() {
            Some(file) => Ok(Self::Ring(file)),
            None => Ok(Self::Threads(Threads::start(blocks, bell)?)),
        }
    }

    /// Starts a transfer. Nobody else may use the bytes of the piece, or change them where they are
    /// written, until it has ended.
    pub(crate) fn start(
        &self,
        ring: &mut EventRing,
        piece: Piece,
        is_write: bool,
        token: u64,
    ) -> io::Result<()> {
        match self {
            Self::Ring(file) if is_write => ring.write(file, &piece, token),
            Self::Ring(file) => ring.read(file, &piece, token),
            Self::Threads(threads) => threads.start_one(Job { piece, is_write, token }),
        }
    }

    /// Transfers of threads that ended since this was last called.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        match self {
            Self::Ring(_) => Vec::new(),
            Self::Threads(threads) => std::mem::take(&mut *lock(&threads.ended)),
        }
    }
}

impl Transfers {
    /// Waits for none of its transfers: each has what it needs.
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

pub(crate) struct Threads {
    jobs: Option<Sender<Job>>,
    ended: Arc<Mutex<Vec<Ended>>>,
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(blocks: &Arc<dyn Blocks>, bell: &Arc<Doorbell>) -> io::Result<Self> {
        let (jobs, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Self { jobs: Some(jobs), ended: Arc::clone(&ended), workers: vec![] };
        for _ in 0..THREADS {
            let (blocks, bell) = (Arc::clone(blocks), Arc::clone(bell));
            let (receiver, ended) = (Arc::clone(&receiver), Arc::clone(&ended));
            let worker = thread::Builder::new()
                .name("terrace-region-io".into())
                .spawn(move || work(&*blocks, &receiver, &ended, &bell))?;
            threads.workers.push(worker);
        }
        Ok(threads)
    }

    fn start_one(&self, job: Job) -> io::Result<()> {
        let gone = || io::Error::other("the threads of the source have ended");
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(job).map_err(|_| gone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for worker in self.workers.drain(..) {
            // A panic has been told by the hook; the transfers that it kept are over.
            let _ = worker.join();
        }
    }
}

fn work(
    blocks: &dyn Blocks,
    jobs: &Mutex<Receiver<Job>>,
    ended: &Mutex<Vec<Ended>>,
    bell: &Doorbell,
) {
    loop {
        let Ok(job) = lock(jobs).recv() else { return };
        let token = job.token;
        let result = catch_unwind(AssertUnwindSafe(|| run(blocks, &job)))
            .unwrap_or_else(|_| Err(io::Error::other("the source has panicked")));
        lock(ended).push((token, result));
        bell.ring();
    }
}

fn run(blocks: &dyn Blocks, job: &Job) -> io::Result<usize> {
    let Piece { mapping, at, len, offset, .. } = &job.piece;
    debug_assert!(at + len <= mapping.len());
    let mut batch = if job.is_write {
        blocks.ensure(offset + *len as u64)?;
        // SAFETY: the piece lies inside of its mapping, whose pages are there, and whoever started
        // the transfer promised that nobody changes its bytes until it has ended.
        [Io::write(*offset, unsafe { std::slice::from_raw_parts(mapping.as_ptr().add(*at), *len) })]
    } else {
        // SAFETY: as above, and nobody else looks at them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.as_ptr().add(*at), *len) };
        [Io::read(*offset, bytes)]
    };
    blocks.run(&mut batch, &|_| {});
    let [io] = batch;
    io.result.map(|()| *len)
}

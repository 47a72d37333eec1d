//! A pool of io_uring rings: each batch borrows one, so that threads do not wait for each other's
//! transfers while a ring is free.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::file::DirectFile;
use terrace_sys::sync::lock;
use terrace_sys::uring::Ring;

use super::Engine;
use crate::blocks::{Done, Io};

/// Maximum requests of one batch in flight. Throughput of the reference device levels off at 32 for
/// 4 KiB reads and at 4 for 256 KiB.
const RING_DEPTH: u32 = 64;
/// Maximum number of concurrent batches; further threads wait for a ring. 16 rings take about 0.3
/// MiB.
const RING_COUNT_MAX: usize = 16;

pub(super) struct RingPool {
    rings: Mutex<Rings>,
    returned: Condvar,
}

struct Rings {
    idle: Vec<Ring>,
    made: usize,
}

impl RingPool {
    pub(super) fn open() -> io::Result<RingPool> {
        let first = Ring::new(RING_DEPTH)?;
        let rings = Rings { idle: vec![first], made: 1 };
        Ok(RingPool { rings: Mutex::new(rings), returned: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        lock(&self.rings)
    }

    fn take(&self) -> Ring {
        let mut rings = self.lock();
        loop {
            if let Some(ring) = rings.idle.pop() {
                return ring;
            }
            if let Some(ring) = rings.make() {
                return ring;
            }
            rings = self.returned.wait(rings).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, ring: Ring) {
        self.lock().idle.push(ring);
        self.returned.notify_one();
    }
}

impl Rings {
    /// Creates one more ring, unless the maximum is reached or the kernel has no memory for it. In
    /// that case the caller can wait, because the ring created at open always exists.
    fn make(&mut self) -> Option<Ring> {
        if self.made == RING_COUNT_MAX {
            return None;
        }
        let ring = Ring::new(RING_DEPTH).ok()?;
        self.made += 1;
        Some(ring)
    }
}

impl Engine for RingPool {
    fn run(&self, file: &DirectFile, batch: &mut [Io<'_>], done: &Done<'_>) {
        if batch.is_empty() {
            return;
        }
        let mut ring = self.take();
        ring.run(file.as_fd(), batch, done);
        self.put(ring);
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

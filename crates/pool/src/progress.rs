//! Wait queues of a pool: callers without a frame, and the background worker.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::sync::lock;

/// Sleep of a waiter between two retries: bytes that a query gives back to the ledger wake no
/// waiter.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Time that a caller waits for other pages to come free while the store refuses dirty ones.
pub(crate) const STORE_GRACE: Duration = Duration::from_millis(200);

/// Wait queues: callers without a frame wait for `frame`, the background worker for `work`.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    frame: Condvar,
    work: Condvar,
    closed: AtomicBool,
}

impl Progress {
    /// Wakes every caller that waits for a frame, to retry.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.lock));
            self.frame.notify_all();
        }
    }

    /// Waits for a frame to be freed, for at most `longest`.
    pub(crate) fn wait(&self, longest: Duration) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = lock(&self.lock);
        drop(self.frame.wait_timeout(guard, longest));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the background worker.
    pub(crate) fn ask(&self) {
        self.work.notify_one();
    }

    /// Puts the background worker to sleep until it is woken, for at most `longest`.
    pub(crate) fn idle(&self, longest: Duration) {
        let guard = lock(&self.lock);
        drop(self.work.wait_timeout(guard, longest));
    }

    /// Marks the pool as shutting down, which waiting callers and the background worker see when
    /// they wake up next.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// True once the pool shuts down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

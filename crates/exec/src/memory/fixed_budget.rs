//! Query memory of a fixed size, for tests and for programs without a ledger.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use terrace_pool::Space;
use terrace_sys::sync::lock;
use tokio::sync::watch;

use super::grant::{Grant, QueryMemory};

/// Memory of fixed size that the operators of one query share, first come first served.
#[derive(Clone, Debug)]
pub struct FixedMemory {
    space: Space,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit_bytes: AtomicU64,
    wanted_bytes: AtomicU64,
    held_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    spilled_bytes: AtomicU64,
    stopped: watch::Sender<Stop>,
    names: Mutex<Vec<String>>,
}

/// Stop request to the operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    No,
    Paused,
    Suspended,
}

impl Shared {
    /// Returns a future that completes when the request `stop` ends; `None` if there is no such
    /// request now.
    fn while_told(&self, stop: Stop) -> Option<BoxFuture<'static, ()>> {
        let mut stopped = self.stopped.subscribe();
        let is_told = *stopped.borrow_and_update() == stop;
        is_told.then(|| {
            let ended = async move {
                // The sender is dropped only with the last handle that could stop an operator.
                drop(stopped.wait_for(|now| *now != stop).await);
            };
            ended.boxed()
        })
    }

    /// Returns a future that completes when `stop` is requested.
    fn until_told(&self, stop: Stop) -> BoxFuture<'static, ()> {
        let mut stopped = self.stopped.subscribe();
        let told = async move {
            if stopped.wait_for(|now| *now == stop).await.is_err() {
                // The sender is dropped only with the last handle that could stop an operator.
                std::future::pending::<()>().await;
            }
        };
        told.boxed()
    }
}

#[derive(Debug)]
struct FixedGrant {
    shared: Arc<Shared>,
    held_bytes: AtomicU64,
}

impl FixedMemory {
    /// Creates memory of `limit_bytes`; the operators' pages are those of `space`.
    #[must_use]
    pub fn new(space: Space, limit_bytes: u64) -> Self {
        let shared = Shared {
            limit_bytes: AtomicU64::new(limit_bytes),
            wanted_bytes: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            spilled_bytes: AtomicU64::new(0),
            stopped: watch::Sender::new(Stop::No),
            names: Mutex::default(),
        };
        Self { space, shared: Arc::new(shared) }
    }

    /// Changes the limit. Bytes held above it become excess.
    pub fn set_limit(&self, bytes: u64) {
        self.shared.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Simulates other consumers that wait for `bytes` of the limit. As in an engine, bytes held
    /// become excess if the limit leaves less than that, but requests for more are still granted
    /// from free bytes.
    pub fn set_wanted(&self, bytes: u64) {
        self.shared.wanted_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that all operators hold now.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.shared.held_bytes.load(Ordering::Relaxed)
    }

    /// Returns the maximum of the bytes held at one time.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.shared.peak_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes unpinned for lack of memory.
    #[must_use]
    pub fn spilled_bytes(&self) -> u64 {
        self.shared.spilled_bytes.load(Ordering::Relaxed)
    }

    /// Asks every operator to suspend at its next batch: to unpin its pages and wait.
    pub fn suspend(&self) {
        self.shared.stopped.send_replace(Stop::Suspended);
    }

    /// Asks every operator to pause, without releasing the memory that it holds.
    pub fn pause(&self) {
        self.shared.stopped.send_replace(Stop::Paused);
    }

    /// Resumes suspended and paused operators.
    pub fn resume(&self) {
        self.shared.stopped.send_replace(Stop::No);
    }

    /// Returns the names that operators registered with, in order.
    #[must_use]
    pub fn operators(&self) -> Vec<String> {
        lock(&self.shared.names).clone()
    }
}

impl QueryMemory for FixedMemory {
    fn space(&self) -> &Space {
        &self.space
    }

    fn register(&self, name: &str) -> Arc<dyn Grant> {
        let mut names = lock(&self.shared.names);
        names.push(name.to_owned());
        Arc::new(FixedGrant { shared: Arc::clone(&self.shared), held_bytes: AtomicU64::new(0) })
    }

    fn paused(&self) -> Option<BoxFuture<'static, ()>> {
        self.shared.while_told(Stop::Paused)
    }
}

impl FixedGrant {
    fn took(&self, bytes: u64, held: u64) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.peak_bytes.fetch_max(held, Ordering::Relaxed);
    }
}

impl Grant for FixedGrant {
    fn try_grow(&self, bytes: u64) -> bool {
        let limit = self.shared.limit_bytes.load(Ordering::Relaxed);
        let fits = |held: u64| held.checked_add(bytes).filter(|held| *held <= limit);
        let took = self.shared.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        took.map(|held| self.took(bytes, held + bytes)).is_ok()
    }

    fn grow(&self, bytes: u64) {
        let held = self.shared.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.took(bytes, held + bytes);
    }

    fn shrink(&self, bytes: u64) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Does nothing: there is no pool that would have to shrink.
    fn hold_heap(&self, _bytes: u64) {}

    fn release_heap(&self, _bytes: u64) {}

    fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    fn excess_bytes(&self) -> u64 {
        let limit = self.shared.limit_bytes.load(Ordering::Relaxed);
        let wanted = self.shared.wanted_bytes.load(Ordering::Relaxed);
        let taken = self.shared.held_bytes.load(Ordering::Relaxed).saturating_add(wanted);
        taken.saturating_sub(limit).min(self.held_bytes())
    }

    fn suspended(&self) -> Option<BoxFuture<'static, ()>> {
        self.shared.while_told(Stop::Suspended)
    }

    fn suspends(&self) -> BoxFuture<'static, ()> {
        self.shared.until_told(Stop::Suspended)
    }

    fn count_spilled(&self, bytes: u64) {
        self.shared.spilled_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for FixedGrant {
    fn drop(&mut self) {
        let held = self.held_bytes.load(Ordering::Relaxed);
        self.shared.held_bytes.fetch_sub(held, Ordering::Relaxed);
    }
}

//! What the queries of an engine share: the ledger, the pool behind it, and who waits for bytes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_market::Ledger;
use terrace_sys::size::{KIB, MIB, round_up};

use super::fair::Fairness;

/// Queries that wait for each other end by this.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that the ledger can get back: the frames of a buffer pool above its floor.
pub trait Reserve: Send + Sync + fmt::Debug {
    /// Gives up to `bytes` (and what else comes with the last frame) back to the ledger, without
    /// I/O, and returns how many it gave.
    fn release(&self, bytes: u64) -> u64;

    /// As [`Reserve::release`], and writes pages to the store for it if need be.
    fn release_by_writing(&self, bytes: u64) -> u64;

    /// An estimate of the bytes that could be given back, at once or by writing.
    fn releasable(&self) -> u64;

    /// Bytes of the ledger that it holds in all.
    fn held(&self) -> u64;
}

/// The budget as queries see it.
#[derive(Debug)]
pub struct MemoryBudget {
    pub(super) ledger: Ledger,
    pub(super) reserve: Arc<dyn Reserve>,
    pub(super) fairness: Fairness,
    /// Bytes that a query takes of the ledger at a time.
    pub(super) lease_bytes: u64,
    /// How long an operator waits while other queries hold what it lacks.
    pub(super) patience: Duration,
    waiting_bytes: AtomicU64,
}

impl MemoryBudget {
    /// The budget of `ledger`, of which `reserve` holds what queries do not.
    #[must_use]
    pub fn new(ledger: Ledger, reserve: Arc<dyn Reserve>) -> Self {
        let budget = ledger.budget();
        Self {
            fairness: Fairness::of_budget(budget),
            lease_bytes: (budget / 256).clamp(64 * KIB, MIB),
            patience: PATIENCE,
            waiting_bytes: AtomicU64::new(0),
            ledger,
            reserve,
        }
    }

    /// The same, with operators that wait no longer than this for what other queries hold.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether idle bytes are wanted: somebody waits for some, or owes some.
    pub(super) fn is_short(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) > 0 || self.ledger.debt() > 0
    }

    /// Bytes that nobody holds, or the pool would give up, less those that somebody waits for.
    pub(super) fn free_bytes(&self) -> u64 {
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        self.obtainable_bytes().saturating_sub(waiting)
    }

    /// Bytes that nobody holds, or that the pool would give up.
    pub(super) fn obtainable_bytes(&self) -> u64 {
        self.ledger.available().saturating_add(self.reserve.releasable())
    }

    /// Asks the pool for what the ledger lacks of `bytes`; false if it gave nothing.
    pub(super) fn reclaim(&self, bytes: u64, by_writing: bool) -> bool {
        let missing = bytes.saturating_sub(self.ledger.available()).max(1);
        let missing = round_up(missing, self.lease_bytes);
        let given = match by_writing {
            true => self.reserve.release_by_writing(missing),
            false => self.reserve.release(missing),
        };
        given > 0
    }

    /// Bytes that consumers beside the pool and the one that holds `own` hold. They may come back.
    pub(super) fn held_beside(&self, own: u64) -> u64 {
        self.ledger.granted().saturating_sub(self.reserve.held()).saturating_sub(own)
    }

    /// Somebody waits for `bytes` until the value is dropped.
    pub(super) fn wait_for(&self, bytes: u64) -> Waiter<'_> {
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        Waiter { budget: self, bytes }
    }
}

/// Keeps bytes that somebody waits for out of what operators that can spill may take.
pub(super) struct Waiter<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.budget.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

//! Runs the memory market inside the engine: decides how much memory each query and the table cache
//! may hold under contention.
//!
//! Consumers are the queries with more state than a small part of the budget, the cached tables,
//! once for each SLA that reads them, and the cached files of other machines. Ten times a second a
//! `Broker` estimates the cost of each consumer as a function of its memory and sets their limits
//! ([`terrace_market`]). A query above its limit releases memory within a batch, a query below may
//! grow; memory that queries do not get goes to the cache. A query that runs alone is not limited,
//! nor is any query while no session has set an SLA: then the thresholds of [`crate::memory`]
//! decide alone.
//!
//! | module | concept |
//! |---|---|
//! | `kind` | the mechanisms by name |
//! | `claim` | the tenant and SLA that a query is charged to |
//! | `report` | consumers and trades as the engine reports them |
//! | `cache` | cached tables and files as consumers |
//! | `model` | queries as consumers |
//! | `device` | the time that I/O takes |
//! | `round` | one round: from observations to limits |
//! | `trades` | the trades that rounds have led to |
//! | `preempt` | preemption by queries of a higher priority |
//! | `estimate` | the expected work of a query |
//! | `schedule` | the order of queries that compete for processors and the device |
//! | `admission` | admission control while memory cannot hold the minimum of all queries |
//!
//! Locking order: the market's state, then a query's reservations. Queries take the state's lock
//! only when they begin and end.

mod admission;
mod cache;
mod claim;
mod device;
mod estimate;
mod kind;
mod model;
mod number;
mod preempt;
mod report;
mod round;
mod schedule;
#[cfg(test)]
mod tests;
mod trades;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terrace_store::Store;
use terrace_sys::sync::lock;

use crate::memory::MemoryBudget;
use crate::query::{Queries, Query};

pub use cache::CacheClass;
pub use claim::Claim;
use device::Device;
pub use kind::MarketKind;
pub(crate) use preempt::Need;
pub use report::{LastTrade, MarketReport, Row, TradeReport};
use round::State;

/// State shared by the engine and the market's thread.
struct Shared {
    queries: Arc<Queries>,
    budget: Arc<MemoryBudget>,
    state: Mutex<State>,
}

/// The market of an engine. Dropping it stops its thread.
pub struct Market {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Market {
    /// Opens the market of a budget over a store, on a thread of its own.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn open(
        queries: &Arc<Queries>,
        budget: &Arc<MemoryBudget>,
        store: Option<Arc<Store>>,
    ) -> std::io::Result<Self> {
        let mut market = Self::without_thread(queries, budget, store);
        let shared = Arc::clone(&market.shared);
        let thread = std::thread::Builder::new().name("terrace-market".to_owned());
        market.thread = Some(thread.spawn(move || shared.run())?);
        Ok(market)
    }

    /// Creates a market without a thread, whose rounds the caller runs.
    pub(crate) fn without_thread(
        queries: &Arc<Queries>,
        budget: &Arc<MemoryBudget>,
        store: Option<Arc<Store>>,
    ) -> Self {
        let state = Mutex::new(State::new(Device::new(store), Instant::now()));
        let (queries, budget) = (Arc::clone(queries), Arc::clone(budget));
        Self { shared: Arc::new(Shared { queries, budget, state }), thread: None }
    }

    /// Returns the mechanism in use.
    pub fn kind(&self) -> MarketKind {
        self.shared.state().kind()
    }

    /// Switches to another mechanism.
    pub fn choose(&self, kind: MarketKind) {
        self.shared.state().choose(kind);
        self.shared.budget.wakeup().ring();
    }

    /// Returns the class of cached tables read by queries with this claim.
    pub fn class(&self, claim: &Claim) -> Arc<CacheClass> {
        self.shared.state().class(claim)
    }

    /// Adds cached files of other machines as a consumer.
    #[must_use]
    pub fn files(&self) -> Arc<CacheClass> {
        self.shared.state().files()
    }

    /// Records that a query has begun.
    pub(crate) fn arrived(&self) {
        self.shared.budget.wakeup().ring();
    }

    /// Records that a query has ended.
    pub(crate) fn departed(&self, query: &Query) {
        self.shared.state().ended(query);
        self.shared.budget.wakeup().ring();
    }

    /// Returns every consumer.
    pub fn rows(&self) -> Vec<Row> {
        self.shared.state().rows(&self.shared.queries, &self.shared.budget)
    }

    /// Returns every consumer, and the last trades.
    pub fn report(&self) -> MarketReport {
        self.shared.state().report(&self.shared.queries, &self.shared.budget)
    }

    /// Takes one look at all queries, as the thread does, with a round if `full`.
    #[cfg(test)]
    pub fn look(&self, full: bool, now: Instant) {
        self.shared.state().tick(&self.shared.queries, &self.shared.budget, full, now);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Runs the thread's loop.
    fn run(&self) {
        let wakeup = self.budget.wakeup();
        let _unhand = Unhand(self);
        let mut patience: Option<Duration> = None;
        while let Some(hurry) = wakeup.wait(patience) {
            self.queries.end_spilling();
            let now = Instant::now();
            let mut state = self.state();
            let full = state.is_due(now, hurry);
            patience = state.tick(&self.queries, &self.budget, full, now);
        }
    }
}

/// Guard of the market's thread: however it ends, no query stays stopped or limited by it.
struct Unhand<'a>(&'a Shared);

impl Drop for Unhand<'_> {
    fn drop(&mut self) {
        for query in self.0.queries.running() {
            query.release();
            query.admission(false);
            query.outbid(false);
            query.limit(None);
        }
    }
}

impl Drop for Market {
    fn drop(&mut self) {
        self.shared.budget.wakeup().stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported already, and there is nothing left to end.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Market {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Market").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

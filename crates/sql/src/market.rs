//! The market in the running engine: who may have how much memory while others want some too.
//!
//! Consumers are the queries with more state than a small part of the budget, and the cached
//! tables, once for each SLA that reads them. Ten times a second a `Broker` looks at what each
//! would save with how much and says what each may hold ([`terrace_market`]). A query above that
//! gives back within a batch, a query below may grow; what queries are not given is the cache's.
//! Who is alone, and everybody while nobody has named an SLA, is not limited: then the thresholds
//! of [`crate::memory`] decide alone.
//!
//! | module | concept |
//! |---|---|
//! | `kind` | the mechanisms by name |
//! | `cache` | cached tables as consumers |
//! | `model` | queries as consumers |
//! | `device` | the time that I/O takes |
//! | `round` | one round: from what is known to limits |
//! | `trades` | the trades that rounds have led to |
//! | `preempt` | who waits for a higher priority |
//! | `estimate` | the work that is expected of a query |
//! | `schedule` | the order of queries while several want processors and the device |
//! | `crowd` | who waits when memory has no room for all |
//!
//! Locking order: the market's state, then a query's books. Queries never take the state's lock but
//! to begin and to end.

mod cache;
mod crowd;
mod device;
mod estimate;
mod kind;
mod model;
mod number;
mod preempt;
mod round;
mod schedule;
#[cfg(test)]
mod tests;
mod trades;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use terrace_market::Sla;
use terrace_tier::store::Store;

use crate::memory::MemoryBudget;
use crate::query::{Queries, Query};

pub(crate) use cache::CacheClass;
use device::Device;
pub(crate) use estimate::PlanSize;
pub use kind::MarketKind;
pub(crate) use preempt::Need;
use round::State;

/// What a query is charged by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// The tenant of its session.
    pub tenant: Option<Arc<str>>,
    /// What slowness costs; none where nobody has said.
    pub sla: Option<Arc<Sla>>,
}

impl Claim {
    /// The priority of its SLA.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.sla.as_ref().map_or(0, |sla| sla.priority())
    }
}

/// A row of `terrace.market`.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub consumer: String,
    /// `cache` or `query`.
    pub class: &'static str,
    /// Tenant and SLA that it is charged by.
    pub claim: Claim,
    /// Bytes it holds.
    pub held_bytes: u64,
    /// What it may hold; none without a limit.
    pub target_bytes: Option<u64>,
    /// What a MiB more would save in penalties a second, at most on average.
    pub gain_per_mib: Option<f64>,
    /// What a MiB less would cost.
    pub loss_per_mib: Option<f64>,
    /// Its last trade.
    pub last_trade: Option<LastTrade>,
    /// Bytes it has spilled; none of a cache.
    pub spilled_bytes: Option<u64>,
}

/// What a consumer last traded.
#[derive(Clone, Debug)]
pub struct LastTrade {
    /// Got, or given if negative.
    pub bytes: i64,
    /// With whom; none where the memory was nobody's.
    pub with: Option<String>,
    /// Time of the trade.
    pub at: SystemTime,
}

/// The market at one moment.
#[derive(Clone, Debug)]
pub struct MarketReport {
    /// The mechanism.
    pub kind: MarketKind,
    /// Every consumer: the caches, then the queries that run.
    pub rows: Vec<Row>,
    /// Trades since the engine was opened.
    pub trades: u64,
    /// Bytes of those trades.
    pub traded_bytes: u64,
    /// The last trades of at least 64 KiB, oldest first.
    pub last_trades: Vec<TradeReport>,
}

/// A trade of memory.
#[derive(Clone, Debug)]
pub struct TradeReport {
    /// Time of the trade.
    pub at: SystemTime,
    /// The consumer that gave; none where no consumer held the memory.
    pub from: Option<String>,
    /// The consumer that got.
    pub to: String,
    /// Bytes.
    pub bytes: u64,
    /// By how much the penalties of a second are expected to fall.
    pub gain: f64,
}

/// What the engine and the market's thread share.
struct Shared {
    queries: Arc<Queries>,
    budget: Arc<MemoryBudget>,
    state: Mutex<State>,
}

/// The market of an engine. Its thread ends with it.
pub(crate) struct Market {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Market {
    /// Opens the market of a budget over a store, on a thread of its own.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn open(
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

    /// A market whose rounds somebody else calls.
    pub(crate) fn without_thread(
        queries: &Arc<Queries>,
        budget: &Arc<MemoryBudget>,
        store: Option<Arc<Store>>,
    ) -> Self {
        let state = Mutex::new(State::new(Device::new(store), Instant::now()));
        let (queries, budget) = (Arc::clone(queries), Arc::clone(budget));
        Self { shared: Arc::new(Shared { queries, budget, state }), thread: None }
    }

    /// The mechanism.
    pub(crate) fn kind(&self) -> MarketKind {
        self.shared.state().kind()
    }

    /// Has another mechanism decide from now on.
    pub(crate) fn choose(&self, kind: MarketKind) {
        self.shared.state().choose(kind);
        self.shared.budget.bell().ring();
    }

    /// The class of cached tables that queries with this claim read.
    pub(crate) fn class(&self, claim: &Claim) -> Arc<CacheClass> {
        self.shared.state().class(claim)
    }

    /// A query has begun.
    pub(crate) fn arrived(&self) {
        self.shared.budget.bell().ring();
    }

    /// A query has ended.
    pub(crate) fn departed(&self, query: &Query) {
        self.shared.state().ended(query);
        self.shared.budget.bell().ring();
    }

    /// Every consumer.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.shared.state().rows(&self.shared.queries, &self.shared.budget)
    }

    /// Every consumer, and the last trades.
    pub(crate) fn report(&self) -> MarketReport {
        self.shared.state().report(&self.shared.queries, &self.shared.budget)
    }

    /// One look at everything, as the thread takes it, with a round if `full`.
    #[cfg(test)]
    pub(crate) fn look(&self, full: bool, now: Instant) {
        self.shared.state().tick(&self.shared.queries, &self.shared.budget, full, now);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of the thread.
    fn run(&self) {
        let bell = self.budget.bell();
        let _unhand = Unhand(self);
        let mut patience: Option<Duration> = None;
        while let Some(hurry) = bell.wait(patience) {
            self.queries.end_spilling();
            let now = Instant::now();
            let mut state = self.state();
            let full = state.is_due(now, hurry);
            patience = state.tick(&self.queries, &self.budget, full, now);
        }
    }
}

/// Whatever ends the market's thread, no query stays stopped or limited by it.
struct Unhand<'a>(&'a Shared);

impl Drop for Unhand<'_> {
    fn drop(&mut self) {
        for query in self.0.queries.running() {
            query.release();
            query.crowd(false);
            query.outbid(false);
            query.limit(None);
        }
    }
}

impl Drop for Market {
    fn drop(&mut self) {
        self.shared.budget.bell().stop();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so, and there is nothing left to end.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Market {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Market").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

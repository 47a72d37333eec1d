//! A running query: its memory, its spill space, its progress, and its suspension.

mod accounting;
mod charge;
mod ending;
mod outcome;
mod plan;
mod progress;
mod requests;
mod suspension;
mod tenant;
mod wait;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Instant, SystemTime};

use datafusion::common::DataFusionError;
use terrace_pool::{PoolError, Space};
use terrace_sys::sync::lock;

use crate::market::{CacheClass, Claim};
use crate::memory::QueryMemoryPool;
use crate::spill::SpillCounters;
use crate::tenancy::Turn;

use charge::Charge;
use ending::Ending;
pub use plan::{PlanSize, QueryPlan};
pub use progress::Progress;
use requests::{Ended, Outcome};
pub use requests::{LATENCY_SECONDS, RECENT, Requests, Totals};
pub use suspension::{LockWait, Suspension};
pub use wait::WaitReason;

/// Current state of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// Planning, or running as far as its reader requests rows.
    Running,
    /// Waiting for a slot of its tenant's concurrency limit.
    Queued,
    /// Waiting for [`Query::resume`], with the pages of its paged operators unpinned.
    Suspended,
    /// Stopped for a while by the market: with its pages unpinned, for a query of a higher priority
    /// that needs memory or for older queries; or paused with what it holds, for queries that need
    /// the processor.
    Preempted,
    /// Ending as soon as its tasks notice.
    Cancelled,
}

impl fmt::Display for QueryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Queued => "queued",
            Self::Suspended => "suspended",
            Self::Preempted => "preempted",
            Self::Cancelled => "cancelled",
        })
    }
}

/// A query that runs or is about to run.
pub struct Query {
    id: u64,
    text: String,
    began: Instant,
    began_at: SystemTime,
    memory: Arc<QueryMemoryPool>,
    spilled: Arc<SpillCounters>,
    space: Space,
    suspension: Arc<Suspension>,
    charge: Charge,
    plan: OnceLock<Box<dyn QueryPlan>>,
    plan_size: OnceLock<PlanSize>,
    rows_returned: AtomicU64,
    is_queued: AtomicBool,
    /// Its slot of its tenant's concurrency limit.
    turn: OnceLock<Weak<Turn>>,
    /// Reason of its end, unless its user cancelled it.
    ended_by: OnceLock<Ending>,
    /// Set once by the stream of its rows.
    outcome: OnceLock<Outcome>,
    /// Number of the session that it belongs to.
    session: Option<u64>,
}

impl Query {
    /// Returns the id of the query, which an engine never reuses.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the text of the statement.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the time of its beginning.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns the wall-clock time of its beginning.
    #[must_use]
    pub fn began_at(&self) -> SystemTime {
        self.began_at
    }

    /// Returns the number of its session.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        self.session
    }

    /// Returns its working memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<QueryMemoryPool> {
        &self.memory
    }

    /// Returns the counters of what it has spilled.
    #[must_use]
    pub fn spilled(&self) -> &SpillCounters {
        &self.spilled
    }

    /// Returns the number of rows it has returned so far.
    #[must_use]
    pub fn rows_returned(&self) -> u64 {
        self.rows_returned.load(Ordering::Relaxed)
    }

    /// Counts rows that it has returned.
    pub fn count_rows(&self, rows: u64) {
        self.rows_returned.fetch_add(rows, Ordering::Relaxed);
    }

    /// Adds the query's largest operators to `error` if a frame of the pool was lacking; returns
    /// any other error unchanged.
    pub fn explained(&self, error: DataFusionError) -> DataFusionError {
        let sources = std::iter::successors(error.source(), |error| (*error).source());
        let mut of_pool = sources.filter_map(|source| source.downcast_ref::<PoolError>());
        if !of_pool.any(|error| matches!(error, PoolError::Exhausted { .. })) {
            return error;
        }
        match self.memory.operators_named() {
            Some(operators) => error.context(operators),
            None => error,
        }
    }

    /// Returns the bytes of its pages in memory now: state of its operators, and what they spilled.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.space.resident_bytes()
    }

    /// Suspends the query. Its paged operators drop their pins at the next batch; the pool evicts
    /// their pages when other queries need the frames.
    pub fn suspend(&self) {
        self.suspension.set(true);
    }

    /// Resumes a suspended query at the point where it stopped.
    pub fn resume(&self) {
        self.suspension.set(false);
    }

    /// Cancels the query: its reader gets an error.
    pub fn cancel(&self) {
        self.memory.cancel();
        self.suspension.cancel();
    }

    /// Returns its current state.
    #[must_use]
    pub fn state(&self) -> QueryState {
        match () {
            () if self.memory.is_cancelled() => QueryState::Cancelled,
            () if self.is_queued.load(Ordering::Relaxed) => QueryState::Queued,
            () if self.suspension.is_preempted() => QueryState::Preempted,
            () if self.suspension.is_set() => QueryState::Suspended,
            () => QueryState::Running,
        }
    }

    /// Returns the event that the query waits for; `None` while it works, and once it is cancelled.
    #[must_use]
    pub fn wait_reason(&self) -> Option<WaitReason> {
        if self.memory.is_cancelled() {
            return None;
        }
        if self.is_queued.load(Ordering::Relaxed) {
            return Some(WaitReason::Turn);
        }
        let starved = || self.memory.is_starved().then_some(WaitReason::Memory);
        let locked = || self.suspension.waits_for_lock().then_some(WaitReason::Lock);
        let unread = || (!self.is_awaited()).then_some(WaitReason::Client);
        self.suspension.reason().or_else(locked).or_else(starved).or_else(unread)
    }

    /// Returns its suspension, which its operators and its reader follow.
    pub fn suspension(&self) -> &Arc<Suspension> {
        &self.suspension
    }

    /// Sets the plan of the query, from which its progress is read, and the plan's size if that is
    /// known. A second plan is ignored.
    pub fn begin_plan(&self, plan: Box<dyn QueryPlan>, size: Option<PlanSize>) {
        if let Some(size) = size {
            let _ = self.plan_size.set(size);
        }
        let _ = self.plan.set(plan);
    }

    /// Returns the size of its plan, computed on the first call; `None` before it is planned.
    pub(crate) fn plan_size(&self) -> Option<PlanSize> {
        let plan = self.plan.get()?;
        Some(*self.plan_size.get_or_init(|| plan.size(&self.text)))
    }

    /// Returns the row estimate of its plan, if the plan's size was requested and is known.
    pub fn known_rows(&self) -> Option<f64> {
        self.plan_size.get()?.rows
    }

    /// Returns the progress of its scans.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.plan.get().map(|plan| plan.progress()).unwrap_or_default()
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("id", &self.id)
            .field("text", &self.text)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// The parts of a query that begins.
pub(crate) struct NewQuery {
    pub id: u64,
    pub text: String,
    pub memory: Arc<QueryMemoryPool>,
    pub spilled: Arc<SpillCounters>,
    pub space: Space,
    pub suspension: Arc<Suspension>,
    /// The tenant and the SLA that it is charged to.
    pub claim: Claim,
    /// The cached tables that it shares with queries of the same claim.
    pub class: Arc<CacheClass>,
    /// Number of the session that it belongs to.
    pub session: Option<u64>,
}

/// The running queries of an engine.
#[derive(Debug, Default)]
pub struct Queries {
    last_id: AtomicU64,
    list: Mutex<List>,
}

/// Running queries, and the totals of ended ones. Each query is in exactly one of the two.
#[derive(Debug, Default)]
struct List {
    running: BTreeMap<u64, Arc<Query>>,
    ended: Ended,
}

impl Queries {
    /// Returns the running queries, oldest first.
    #[must_use]
    pub fn running(&self) -> Vec<Arc<Query>> {
        self.lock().running.values().cloned().collect()
    }

    /// Returns the totals of all queries since the engine was opened.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let list = self.lock();
        list.ended.with(list.running.values().map(|query| query.work()))
    }

    /// Returns the running query with this id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<Query>> {
        self.lock().running.get(&id).cloned()
    }

    /// Lists a query that begins.
    pub(crate) fn begin(&self, query: NewQuery) -> Arc<Query> {
        let NewQuery { id, text, memory, spilled, space, suspension, claim, class, session } =
            query;
        let query = Arc::new(Query {
            id,
            text,
            began: Instant::now(),
            began_at: SystemTime::now(),
            memory,
            spilled,
            space,
            suspension,
            charge: Charge::new(claim, class),
            plan: OnceLock::new(),
            plan_size: OnceLock::new(),
            rows_returned: AtomicU64::new(0),
            is_queued: AtomicBool::new(false),
            turn: OnceLock::new(),
            ended_by: OnceLock::new(),
            outcome: OnceLock::new(),
            session,
        });
        self.lock().running.insert(id, Arc::clone(&query));
        query
    }

    /// Removes a query that ends, and counts it.
    pub(crate) fn end(&self, query: &Query) {
        query.memory.cancel();
        let request = query.request();
        let mut list = self.lock();
        list.running.remove(&query.id);
        let tenant = query.claim().tenant.clone();
        list.ended.count(tenant, query.outcome(), request, query.work());
    }

    /// Returns the id of the next query.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }
}

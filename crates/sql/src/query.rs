//! A running query: its memory, its spill space, its progress, and the handle that ends it.

mod accounting;
mod progress;
mod requests;
mod stream;
mod suspension;
mod turn;
mod wait;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Instant, SystemTime};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use terrace_exec::QueryExtension;
use terrace_exec::panics::{Supervised, catch, caught};
use terrace_pool::{Pool, PoolError, Space};
use terrace_sys::sync::lock;
use tokio::task::AbortHandle;

use crate::error::SqlError;
use crate::market::{Claim, Market, PlanSize};
use crate::memory::{MemoryBudget, PagedMemory, QueryMemory, Watch, Watched};
use crate::pins::{PagePins, Reader};
use crate::session::on_stack;
use crate::sessions::SessionInfo;
use crate::spill::{SpillCounters, SpillSpace};
use crate::tenancy::Turn;
use crate::transaction::Scope;

use accounting::Charge;
pub use progress::Progress;
use requests::{Ended, Outcome};
pub use requests::{LATENCY_SECONDS, RECENT, Requests, Totals};
use stream::QueryStream;
pub(crate) use suspension::Suspension;
use turn::Ending;
pub use wait::WaitReason;

/// Number of spilled runs that a sort merges at a time. More runs are read in smaller pieces; fewer
/// runs need more passes over the data. 32 runs of the batches that DataFusion writes fit most
/// budgets, and two passes over 32 runs each sort a thousand times the memory.
const MERGE_FAN_IN: usize = 32;

/// The parts of the engine that a query uses.
#[derive(Clone)]
pub(crate) struct QueryResources {
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) pool: Pool,
    pub(crate) pins: Arc<PagePins>,
    pub(crate) market: Arc<Market>,
    pub(crate) watch: Arc<Watch>,
}

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
    memory: Arc<QueryMemory>,
    spilled: Arc<SpillCounters>,
    space: Space,
    suspension: Arc<Suspension>,
    charge: Charge,
    plan: OnceLock<Arc<dyn ExecutionPlan>>,
    plan_size: OnceLock<PlanSize>,
    rows_returned: AtomicU64,
    is_queued: AtomicBool,
    /// Its slot of its tenant's concurrency limit.
    turn: OnceLock<Weak<Turn>>,
    /// Reason of its end, unless its user cancelled it.
    ended_by: OnceLock<Ending>,
    /// Set once by the stream of its rows.
    outcome: OnceLock<Outcome>,
    /// Session that it belongs to.
    session: Option<Arc<SessionInfo>>,
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
        self.session.as_ref().map(|session| session.number())
    }

    /// Returns its working memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<QueryMemory> {
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

    /// Adds the holders of memory to an error of a paged operator that found no frame.
    fn explained(&self, error: DataFusionError) -> DataFusionError {
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

    /// Returns the size of its plan, computed on the first call; `None` before it is planned.
    pub(crate) fn plan_size(&self) -> Option<PlanSize> {
        let plan = self.plan.get()?;
        let size = || on_stack(&self.text, || PlanSize::of(plan));
        Some(*self.plan_size.get_or_init(size))
    }

    /// Returns the row estimate of its plan, if the plan's size was requested and is known.
    pub(crate) fn known_rows(&self) -> Option<f64> {
        self.plan_size.get()?.rows
    }

    /// Returns the progress of its scans.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.plan.get().map(Progress::of_plan).unwrap_or_default()
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
        list.ended.with(list.running.values())
    }

    /// Returns the running query with this id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<Query>> {
        self.lock().running.get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }
}

/// Guard that keeps a query in the list of running queries until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningQuery {
    query: Arc<Query>,
    queries: Arc<Queries>,
    runtime: Arc<RuntimeEnv>,
    paged: QueryExtension,
    market: Arc<Market>,
    turn: Option<Arc<Turn>>,
    deadline: Option<AbortHandle>,
    _watched: Watched,
}

impl RunningQuery {
    /// Registers a query: with the ledger, with a space of the pool for what it spills, and in the
    /// list. `base` provides the runtime's object stores and caches; `claim` is what the query is
    /// charged to.
    pub(crate) fn begin(
        queries: &Arc<Queries>,
        resources: &QueryResources,
        base: &RuntimeEnv,
        text: String,
        claim: Claim,
        session: Option<Arc<SessionInfo>>,
    ) -> Result<Self, SqlError> {
        let id = queries.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let Environment { runtime, memory, spilled, space } =
            environment(resources, base, &format!("query {id}"))?;
        let suspension = Arc::new(Suspension::default());
        let paged = PagedMemory {
            memory: Arc::clone(&memory),
            space: space.clone(),
            spilled: Arc::clone(&spilled),
            suspension: Arc::clone(&suspension),
        };
        let market = Arc::clone(&resources.market);
        let charge = Charge::new(claim.clone(), market.class(&claim));
        let query = Arc::new(Query {
            id,
            text,
            began: Instant::now(),
            began_at: SystemTime::now(),
            memory,
            spilled,
            space,
            suspension,
            charge,
            plan: OnceLock::new(),
            plan_size: OnceLock::new(),
            rows_returned: AtomicU64::new(0),
            is_queued: AtomicBool::new(false),
            turn: OnceLock::new(),
            ended_by: OnceLock::new(),
            outcome: OnceLock::new(),
            session,
        });
        queries.lock().running.insert(id, Arc::clone(&query));
        market.arrived();
        let paged = QueryExtension(Arc::new(paged));
        let (queries, _watched) = (Arc::clone(queries), resources.watch.query());
        let (turn, deadline) = (None, None);
        Ok(Self { query, queries, runtime, paged, market, turn, deadline, _watched })
    }

    #[cfg(test)]
    pub(crate) fn query(&self) -> &Arc<Query> {
        &self.query
    }

    #[cfg(test)]
    pub(crate) fn paged_memory(&self) -> &Arc<dyn terrace_exec::QueryMemory> {
        &self.paged.0
    }

    /// Returns the parts of the query that its scans need.
    pub(crate) fn reader(&self) -> Arc<Reader> {
        let (cache, suspension) = (Arc::clone(self.query.class()), &self.query.suspension);
        Arc::new(Reader { cache, suspension: Arc::clone(suspension) })
    }

    /// Starts `plan` in the query's own runtime, as a part of the transaction of `scope`. Progress
    /// is read from `watched`, or from `plan` if there is none.
    pub(crate) fn start(
        self,
        plan: Arc<dyn ExecutionPlan>,
        watched: Option<Arc<dyn ExecutionPlan>>,
        context: TaskContext,
        scope: Scope,
    ) -> Result<QueryHandle> {
        let config = context.session_config().clone().with_extension(Arc::new(self.paged.clone()));
        let config = scope.put_in(config);
        let context = context.with_session_config(config).with_runtime(Arc::clone(&self.runtime));
        let context = Arc::new(context);
        let schema = plan.schema();
        let supervised = Supervised::begin();
        let stream = catch(plan.name(), || execute_stream(Arc::clone(&plan), context))??;
        let (query, name) = (Arc::clone(&self.query), plan.name().to_owned());
        // A query is started once. A plan that changes rows is built around the watched query.
        if watched.is_some() {
            let _ = query.plan_size.set(PlanSize { rows: None, writes: true });
        }
        let _ = query.plan.set(watched.unwrap_or(plan));
        // It is planned, and its rows are not requested yet.
        query.await_rows(false);
        let stream = QueryStream::new(self, stream, supervised, name, scope);
        Ok(QueryHandle { id: query.id, schema, stream: Box::pin(stream), query })
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.abort();
        }
        self.query.memory.cancel();
        let request = self.query.request();
        let mut list = self.queries.lock();
        list.running.remove(&self.query.id);
        list.ended.count(&self.query, request);
        drop(list);
        self.market.departed(&self.query);
    }
}

/// Runs the work of a statement that precedes reading its rows; a panic becomes an error of the
/// statement.
pub(crate) async fn supervised<T>(
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    let _supervised = Supervised::begin();
    caught("the planner", work).await
}

/// A runtime whose memory and spill files come from the pool.
pub(crate) struct Environment {
    pub(crate) runtime: Arc<RuntimeEnv>,
    pub(crate) memory: Arc<QueryMemory>,
    pub(crate) spilled: Arc<SpillCounters>,
    /// Owner of its pages.
    pub(crate) space: Space,
}

/// Builds a separate runtime for `name`, with the object stores and caches of `base`.
pub(crate) fn environment(
    resources: &QueryResources,
    base: &RuntimeEnv,
    name: &str,
) -> Result<Environment, SqlError> {
    let memory = Arc::new(QueryMemory::new(&resources.budget, name));
    let space = resources.pool.create_space(name, None)?;
    let spill = SpillSpace::new(space.clone(), Arc::clone(&resources.pins));
    let spilled = Arc::clone(spill.counters());
    let disk = DiskManagerBuilder::default()
        .with_temp_file_factory(Arc::new(spill))
        .with_max_spill_merge_fan_in(MERGE_FAN_IN);
    let runtime = RuntimeEnvBuilder::from_runtime_env(base)
        .with_memory_pool(Arc::clone(&memory) as _)
        .with_disk_manager_builder(disk)
        .build_arc()?;
    Ok(Environment { runtime, memory, spilled, space })
}

/// A running statement, or a result that waits to be read.
///
/// Work is done only on demand of the stream's reader, and for what is read ahead. Dropping the
/// handle, or its stream, cancels the query: its tasks end at their next await, and release its
/// memory, its pins and its spill files.
pub struct QueryHandle {
    /// Id of the query.
    pub id: u64,
    /// Columns of the result; empty for statements that return nothing.
    pub schema: SchemaRef,
    /// Rows of the result.
    pub stream: SendableRecordBatchStream,
    query: Arc<Query>,
}

impl QueryHandle {
    /// Returns the running query.
    #[must_use]
    pub fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// Suspends the query while its reader is busy, such as with a client that is slow to take the
    /// rows it has: operators unpin their pages, which can then be evicted. Dropping the future
    /// resumes the query.
    ///
    /// It returns early with the next item of the stream: an error if the query was cancelled, a
    /// batch if a user has resumed it, and `None` at its end.
    pub async fn rest(&mut self) -> Option<Result<RecordBatch>> {
        self.query.suspension.rest(true);
        let _resting = Resting(&self.query.suspension);
        self.stream.next().await
    }

    /// Reads the stream to its end.
    ///
    /// # Errors
    /// The query's error.
    pub async fn collect(mut self) -> Result<Output, SqlError> {
        let mut batches = Vec::new();
        while let Some(batch) = self.stream.next().await {
            batches.push(batch?);
        }
        Ok(Output { id: self.id, schema: self.schema, batches })
    }
}

/// Guard that suspends a query whose reader takes no rows, until it is dropped.
struct Resting<'a>(&'a Suspension);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.rest(false);
    }
}

impl fmt::Debug for QueryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryHandle").field("query", &self.query).finish_non_exhaustive()
    }
}

/// The complete result of a statement.
#[derive(Clone, Debug)]
pub struct Output {
    /// Id of the query.
    pub id: u64,
    /// Columns; empty for statements that return nothing.
    pub schema: SchemaRef,
    /// Rows.
    pub batches: Vec<RecordBatch>,
}

impl Output {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

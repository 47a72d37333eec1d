//! A running query: its memory, its spill space, its progress, and the handle that ends it.

mod charge;
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
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
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

use charge::Charge;
pub use progress::Progress;
use requests::{Ended, Outcome};
pub use requests::{LATENCY_SECONDS, RECENT, Requests, Totals};
use stream::QueryStream;
pub(crate) use suspension::Suspension;
use turn::Ending;
pub use wait::WaitReason;

/// Spilled runs that a sort merges at a time. More of them read in smaller pieces; fewer, and more
/// passes over the data are needed. 32 runs of the batches DataFusion writes fit most budgets, and
/// two passes over 32 runs each sort a thousand times the memory.
const MERGE_FAN_IN: usize = 32;

/// What a query needs of the engine.
#[derive(Clone)]
pub(crate) struct QueryResources {
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) pool: Pool,
    pub(crate) pins: Arc<PagePins>,
    pub(crate) market: Arc<Market>,
    pub(crate) watch: Arc<Watch>,
}

/// What a query does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// It is planned, or runs as far as its reader asks.
    Running,
    /// It waits for its turn among the queries of its tenant.
    Queued,
    /// It waits, with its paged operators' pages unpinned, for [`Query::resume`].
    Suspended,
    /// It waits for a while, by the market: in the same way for a query of a higher priority that
    /// needs memory or for older ones, or with what it holds for those that need the processor.
    Preempted,
    /// It ends as soon as its tasks notice.
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

/// A query that runs or is about to.
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
    /// Its turn among the queries of its tenant.
    turn: OnceLock<Weak<Turn>>,
    /// Why it ends, where its user did not ask for that.
    ended_by: OnceLock<Ending>,
    /// Set once by the stream of its rows.
    outcome: OnceLock<Outcome>,
    /// The session that it is of.
    session: Option<Arc<SessionInfo>>,
}

impl Query {
    /// The number of the query, never used twice by an engine.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The statement.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// When it began.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// When it began, by the clock on the wall.
    #[must_use]
    pub fn began_at(&self) -> SystemTime {
        self.began_at
    }

    /// The number of its session.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        self.session.as_ref().map(|session| session.number())
    }

    /// Its working memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<QueryMemory> {
        &self.memory
    }

    /// What it has spilled.
    #[must_use]
    pub fn spilled(&self) -> &SpillCounters {
        &self.spilled
    }

    /// Rows it has returned so far.
    #[must_use]
    pub fn rows_returned(&self) -> u64 {
        self.rows_returned.load(Ordering::Relaxed)
    }

    /// An error of an operator over pages for want of frames, with who holds what.
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

    /// Bytes of its pages that are in memory now: state of its operators, and what they spilled.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.space.resident_bytes()
    }

    /// Stops the query where it is. Its paged operators drop their pins at the next batch; the pool
    /// evicts their pages when others need the frames.
    pub fn suspend(&self) {
        self.suspension.set(true);
    }

    /// Lets a suspended query go on where it stopped.
    pub fn resume(&self) {
        self.suspension.set(false);
    }

    /// Ends the query: its reader gets an error.
    pub fn cancel(&self) {
        self.memory.cancel();
        self.suspension.cancel();
    }

    /// What it does at the moment.
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

    /// The size of its plan, known once it was asked for; none before it is planned.
    pub(crate) fn plan_size(&self) -> Option<PlanSize> {
        let plan = self.plan.get()?;
        let size = || on_stack(&self.text, || PlanSize::of(plan));
        Some(*self.plan_size.get_or_init(size))
    }

    /// The rows of its plan, if its size was asked for and is known.
    pub(crate) fn known_rows(&self) -> Option<f64> {
        self.plan_size.get()?.rows
    }

    /// How far its scans are.
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

/// The queries that run in an engine.
#[derive(Debug, Default)]
pub struct Queries {
    last_id: AtomicU64,
    list: Mutex<List>,
}

/// Queries that run, and the totals of those that have ended. A query is in one of the two.
#[derive(Debug, Default)]
struct List {
    running: BTreeMap<u64, Arc<Query>>,
    ended: Ended,
}

impl Queries {
    /// The running queries, oldest first.
    #[must_use]
    pub fn running(&self) -> Vec<Arc<Query>> {
        self.lock().running.values().cloned().collect()
    }

    /// The totals of all queries since the engine was opened.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let list = self.lock();
        list.ended.with(list.running.values())
    }

    /// The running query of this number.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<Query>> {
        self.lock().running.get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a query in the list of those that run until it is dropped.
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
    /// list. `base` lends the runtime its object stores and caches; `claim` is what the query is
    /// charged by.
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

    /// The query as its scans know it.
    pub(crate) fn reader(&self) -> Arc<Reader> {
        let (cache, suspension) = (Arc::clone(self.query.class()), &self.query.suspension);
        Arc::new(Reader { cache, suspension: Arc::clone(suspension) })
    }

    /// Starts `plan` in the query's own runtime, as a part of the transaction of `scope`. Progress
    /// is read off `watched`, or the plan.
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
        // A query is started once. A change is planned around the query that is watched.
        if watched.is_some() {
            let _ = query.plan_size.set(PlanSize { rows: None, writes: true });
        }
        let _ = query.plan.set(watched.unwrap_or(plan));
        // It is planned, and nobody reads it yet.
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

/// Runs what a statement does before its rows are read; a panic there is an error of the statement.
pub(crate) async fn supervised<T>(
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    let _supervised = Supervised::begin();
    caught("the planner", work).await
}

/// A runtime whose memory and spill files are the pool's.
pub(crate) struct Environment {
    pub(crate) runtime: Arc<RuntimeEnv>,
    pub(crate) memory: Arc<QueryMemory>,
    pub(crate) spilled: Arc<SpillCounters>,
    /// The owner of its pages.
    pub(crate) space: Space,
}

/// Makes a runtime of its own for `name`, with the object stores and caches of `base`.
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

/// A statement that runs, or a result that waits to be read.
///
/// Nothing happens but what reading the stream asks for and what runs ahead of it. Dropping the
/// handle, or its stream, cancels the query: its tasks end at their next await, and with them go
/// its memory, its pins and its spill files.
pub struct QueryHandle {
    /// The number of the query.
    pub id: u64,
    /// The columns of the result; none for statements that return nothing.
    pub schema: SchemaRef,
    /// The rows.
    pub stream: SendableRecordBatchStream,
    query: Arc<Query>,
}

impl QueryHandle {
    /// What is known of the query while it runs.
    #[must_use]
    pub fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// Suspends the query while its reader is busy, such as with a client that is slow to take the
    /// rows it has: operators unpin their pages, which others may have. Dropping the future lets
    /// the query go on.
    ///
    /// It ends early with what the stream gave, which is the next item of it: an error if the query
    /// was cancelled, a batch if a user has resumed it, and none at its end.
    pub async fn rest(&mut self) -> Option<Result<RecordBatch>> {
        self.query.suspension.rest(true);
        let _resting = Resting(&self.query.suspension);
        self.stream.next().await
    }

    /// Reads the stream to its end.
    ///
    /// # Errors
    /// What made the query fail.
    pub async fn collect(mut self) -> Result<Output, SqlError> {
        let mut batches = Vec::new();
        while let Some(batch) = self.stream.next().await {
            batches.push(batch?);
        }
        Ok(Output { id: self.id, schema: self.schema, batches })
    }
}

/// A query whose reader takes no rows, until this is dropped.
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

/// The whole result of a statement.
#[derive(Clone, Debug)]
pub struct Output {
    /// The number of the query.
    pub id: u64,
    /// The columns; none for statements that return nothing.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

impl Output {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

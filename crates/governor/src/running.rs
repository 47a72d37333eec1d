//! Registration of a running query: its memory and spill space, its entry in the list of queries,
//! its slot of its tenant's concurrency limit, and its DataFusion runtime.

use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use terrace_exec::{QueryExtension, QueryMemory};
use terrace_pool::{Pool, Space};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::error::GovernorError;
use crate::market::{Claim, Market};
use crate::memory::{MemoryBudget, PagedMemory, QueryMark, QueryMemoryPool, Watch};
use crate::pins::{PagePins, Reader};
use crate::query::{NewQuery, Queries, Query, Suspension};
use crate::spill::{SpillCounters, SpillSpace};
use crate::tenancy::Turn;

/// Number of spilled runs that a sort merges at a time. More runs are read in smaller pieces; fewer
/// runs need more passes over the data. 32 runs of the batches that DataFusion writes fit most
/// budgets, and two passes over 32 runs each sort a thousand times the memory.
const MERGE_FAN_IN: usize = 32;

/// The parts of the engine that a query uses.
#[derive(Clone)]
pub struct QueryResources {
    /// Budget of all queries.
    pub budget: Arc<MemoryBudget>,
    /// Pool for its pages.
    pub pool: Pool,
    /// Account of the bytes that batches pin.
    pub pins: Arc<PagePins>,
    /// Market that limits it.
    pub market: Arc<Market>,
    /// Monitoring of the memory of the process.
    pub watch: Arc<Watch>,
}

/// Guard that keeps a query in the list of running queries until it is dropped.
#[derive(Debug)]
pub struct RunningQuery {
    query: Arc<Query>,
    queries: Arc<Queries>,
    runtime: Arc<RuntimeEnv>,
    paged: QueryExtension,
    market: Arc<Market>,
    turn: Option<Arc<Turn>>,
    deadline: Option<AbortHandle>,
    _mark: QueryMark,
}

impl RunningQuery {
    /// Registers a query: with the ledger, with a space of the pool for what it spills, and in the
    /// list. `base` provides the runtime's object stores and caches; `claim` is what the query is
    /// charged to, `session` the number of its session.
    ///
    /// # Errors
    /// If the pool cannot create another space.
    pub fn begin(
        queries: &Arc<Queries>,
        resources: &QueryResources,
        base: &RuntimeEnv,
        text: String,
        claim: Claim,
        session: Option<u64>,
    ) -> Result<Self, GovernorError> {
        let id = queries.next_id();
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
        let class = market.class(&claim);
        let query =
            NewQuery { id, text, memory, spilled, space, suspension, claim, class, session };
        let query = queries.begin(query);
        market.arrived();
        let paged = QueryExtension(Arc::new(paged));
        let (queries, _mark) = (Arc::clone(queries), resources.watch.query());
        let (turn, deadline) = (None, None);
        Ok(Self { query, queries, runtime, paged, market, turn, deadline, _mark })
    }

    /// Returns the query.
    pub fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// Returns the runtime that its plan runs in.
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }

    /// Adds the memory of its paged operators to the configuration that its plan runs with.
    pub fn configured(&self, config: SessionConfig) -> SessionConfig {
        config.with_extension(Arc::new(self.paged.clone()))
    }

    /// Returns the memory of its paged operators.
    pub fn paged_memory(&self) -> &Arc<dyn QueryMemory> {
        &self.paged.0
    }

    /// Returns the parts of the query that its scans need.
    pub fn reader(&self) -> Arc<Reader> {
        let (cache, suspension) = (Arc::clone(self.query.class()), self.query.suspension());
        Arc::new(Reader { cache, suspension: Arc::clone(suspension) })
    }

    /// Waits for a slot of the tenant's concurrency limit, and applies the tenant's limits from
    /// then on.
    ///
    /// # Errors
    /// Waiting too long, and cancellation meanwhile.
    pub async fn wait_for(
        &mut self,
        turn: impl Future<Output = Result<Turn, GovernorError>>,
    ) -> Result<(), GovernorError> {
        let turn = self.query.wait_for(turn).await?;
        self.deadline = turn.limits().query_time.map(|time| {
            let (query, tenant) = (Arc::downgrade(&self.query), Arc::clone(turn.tenant()));
            let ends = async move {
                sleep(time).await;
                if let Some(query) = query.upgrade() {
                    query.end_late(&tenant, time);
                }
            };
            tokio::spawn(ends).abort_handle()
        });
        self.turn = Some(turn);
        Ok(())
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.abort();
        }
        self.queries.end(&self.query);
        self.market.departed(&self.query);
    }
}

/// A runtime whose memory and spill files come from the pool.
pub struct Environment {
    /// The runtime.
    pub runtime: Arc<RuntimeEnv>,
    /// Its memory pool.
    pub memory: Arc<QueryMemoryPool>,
    /// Counters of its spill files.
    pub spilled: Arc<SpillCounters>,
    /// Owner of its pages.
    pub space: Space,
}

/// Builds a separate DataFusion runtime with the object stores and caches of `base`; its memory
/// pool and its space are registered as `name`.
pub fn environment(
    resources: &QueryResources,
    base: &RuntimeEnv,
    name: &str,
) -> Result<Environment, GovernorError> {
    let memory = Arc::new(QueryMemoryPool::new(&resources.budget, name));
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

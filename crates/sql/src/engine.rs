//! The engine: a memory budget, the tiers, the buffer pool over them, and the database.

mod open;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace_exec::run_blocking;
use terrace_ledger::{Consumer, Ledger};
use terrace_pool::{Placement, Pool};
use terrace_store::{Blocks, Store};
use terrace_tier::TierSpec;

use crate::catalog::Catalog;
use crate::data_dir::DataDir;
use crate::error::SqlError;
use crate::files::{Files, SystemFiles};
use crate::market::MarketReport;
use crate::memory::{ProcessMemory, Reserve};
use crate::pins::PagePins;
use crate::placement::{self, HeapDefinition, Heaps, Keeper, KeeperParts};
use crate::query::{Queries, QueryResources};
use crate::scan::ScanOptions;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::system::{TenantReport, TierReport};
use crate::tenancy::Tenancy;
use crate::write::Merger;
pub(crate) use open::DRAM_BYTES_MIN;

/// Configuration of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The budget: bytes of DRAM for table data, working memory and all other accounted memory.
    pub dram_bytes: u64,
    /// Slower memory tiers, fastest first, and at most one file or device for the store. Without
    /// one, the store is a file in the data directory.
    pub tiers: Vec<TierSpec>,
    /// The data directory. Without one, the database is temporary.
    pub data_dir: Option<PathBuf>,
    /// Partitions of a query: the number of threads that work on it in parallel.
    pub threads: usize,
    /// Initial settings of every session: names and values as for SET.
    pub settings: Vec<(String, String)>,
    /// Placement of pages.
    pub placement: Placement,
    /// Source of the process's unaccounted memory use, so that the engine can keep it within the
    /// budget as well.
    pub process_memory: ProcessMemory,
    /// Limit of the process's memory in bytes. If its memory is watched and unaccounted memory
    /// takes it beyond the limit, the youngest query fails with an error.
    pub process_limit_bytes: Option<u64>,
}

impl EngineConfig {
    /// The configuration of a temporary database with as many threads as there are processors.
    #[must_use]
    pub fn new(dram_bytes: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            dram_bytes,
            tiers: vec![],
            data_dir: None,
            threads,
            settings: vec![],
            placement: Placement::default(),
            process_memory: ProcessMemory::default(),
            process_limit_bytes: None,
        }
    }
}

/// Share of the budget that scans may read ahead: 1 / `AHEAD_SHARE`.
const AHEAD_SHARE: u64 = 16;

/// Time that closing the engine waits for a write: that of a chunk, or a commit, takes seconds on a
/// slow disk.
const TASK_PATIENCE: Duration = Duration::from_secs(60);

/// A running engine. Clones share it; it ends with the last clone and the last session.
#[derive(Clone, Debug)]
pub struct Engine {
    state: Arc<EngineState>,
}

/// Shared state of an engine.
pub(crate) struct EngineState {
    // Fields are dropped in this order: nothing may use the store's file or the directory's lock
    // after they are gone.
    merger: Merger,
    /// Started with the first heap.
    keeper: OnceLock<Keeper>,
    heaps: Arc<Heaps>,
    catalog: Arc<Catalog>,
    resources: QueryResources,
    queries: Arc<Queries>,
    tenancy: Arc<Tenancy>,
    sessions: Arc<Sessions>,
    partitions: usize,
    settings: Vec<(String, String)>,
    memory_tiers: Vec<String>,
    data_dir: DataDir,
}

impl Engine {
    /// Opens the database in the data directory of `config`, or a new temporary one.
    ///
    /// # Errors
    /// [`SqlError::Tier`] for tiers that this machine does not have, [`SqlError::Refused`] for an
    /// invalid configuration or a setting that sessions refuse; errors of the directory, the store,
    /// the pool and the catalog.
    pub fn open(config: &EngineConfig) -> Result<Self, SqlError> {
        Self::open_in(Arc::new(SystemFiles), config)
    }

    /// Like [`Engine::open`], with the data directory in another file system. A tier that is a file
    /// or device is still one of this machine.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_in(files: Arc<dyn Files>, config: &EngineConfig) -> Result<Self, SqlError> {
        let state = open::assemble(open::prepare(files, config)?)?;
        Ok(Self { state: Arc::new(state) })
    }

    /// Opens a database whose pages are on `blocks`, of which it may use `capacity_bytes`. The
    /// tiers of `config` are ignored.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn over_blocks(
        config: &EngineConfig,
        blocks: Arc<dyn Blocks>,
        capacity_bytes: u64,
    ) -> Result<Self, SqlError> {
        let data_dir = open::open_dir(Arc::new(SystemFiles), config)?;
        let state = open::assemble(open::Parts {
            dram_bytes: config.dram_bytes,
            slower_memory: vec![],
            store: Arc::new(Store::open(blocks, "blocks", capacity_bytes)?),
            keep: open::Keep::Nothing,
            data_dir,
            threads: config.threads,
            settings: config.settings.clone(),
            placement: config.placement,
            process_memory: config.process_memory,
            process_limit_bytes: config.process_limit_bytes,
        })?;
        Ok(Self { state: Arc::new(state) })
    }

    /// Opens a session without a role.
    ///
    /// # Errors
    /// [`SqlError::Pool`] if the pool cannot create another space.
    pub fn session(&self) -> Result<Session, SqlError> {
        Session::new(Arc::clone(&self.state))
    }

    /// Opens a session for a role of the database, in the role's tenant.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`]; [`SqlError::TenantFull`] if the tenant has reached its maximum
    /// number of sessions; as [`Engine::session`].
    pub fn session_of(&self, role: &str) -> Result<Session, SqlError> {
        Session::of_role(Arc::clone(&self.state), role)
    }

    /// The buffer pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.state.pool()
    }

    /// The ledger of the budget.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.state.ledger()
    }

    /// The catalog.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.state.catalog()
    }

    /// The running queries.
    #[must_use]
    pub fn queries(&self) -> &Arc<Queries> {
        self.state.queries()
    }

    /// Accounting of the bytes that batches keep pinned.
    #[must_use]
    pub fn pins(&self) -> &Arc<PagePins> {
        self.state.pins()
    }

    /// Reports of the tiers, fastest first.
    #[must_use]
    pub fn tiers(&self) -> Vec<TierReport> {
        TierReport::of(&self.state)
    }

    /// A report of the market: its consumers and their last trades.
    #[must_use]
    pub fn market(&self) -> MarketReport {
        self.state.resources().market.report()
    }

    /// Reports of the tenants with their queries, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantReport> {
        TenantReport::of(&self.state)
    }

    /// The first error of the store, after which the engine writes nothing more. It still answers
    /// queries whose data it can read.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.pool().store().and_then(|store| store.latched())
    }

    /// Closes the engine, if it has no other users, after its pending writes.
    ///
    /// # Errors
    /// [`SqlError::Refused`] while a session or another clone is alive, [`SqlError::DataDir`] if a
    /// write does not end or the store has failed.
    pub fn close(self) -> Result<(), SqlError> {
        let Some(state) = Arc::into_inner(self.state) else {
            return Err(SqlError::Refused {
                what: "closing an engine that sessions use".to_owned(),
                instead: "drop the sessions and their query handles first".to_owned(),
            });
        };
        let path = state.data_dir.path().to_owned();
        let what = match state.end_tasks() {
            true => state.pool().store().and_then(|store| store.latched()),
            false => Some("a write that was begun does not end".to_owned()),
        };
        drop(state);
        what.map_or(Ok(()), |what| Err(SqlError::DataDir { path, what }))
    }
}

impl EngineState {
    /// Stops the merger, and waits for writes that no statement waits for any more; false if one
    /// does not end in time.
    fn end_tasks(&self) -> bool {
        self.merger.stop();
        let tasks = self.catalog.tasks();
        tasks.wait(Duration::ZERO) || run_blocking(|| tasks.wait(TASK_PATIENCE))
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.resources.pool
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.resources.budget.ledger()
    }

    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub(crate) fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }

    pub(crate) fn resources(&self) -> &QueryResources {
        &self.resources
    }

    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    pub(crate) fn scan_options(&self, partitions: usize) -> ScanOptions {
        let pins = Arc::clone(self.pins());
        ScanOptions { partitions, ahead_bytes: self.ledger().budget() / AHEAD_SHARE, pins }
    }

    /// The open sessions.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Sessions and queries by tenant.
    pub(crate) fn tenancy(&self) -> &Arc<Tenancy> {
        &self.tenancy
    }

    pub(crate) fn pins(&self) -> &Arc<PagePins> {
        &self.resources.pins
    }

    /// Initial settings of every session, as for SET.
    pub(crate) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// The heaps that segments may be placed in.
    pub(crate) fn heaps(&self) -> &Heaps {
        &self.heaps
    }

    /// Creates a heap; with `keep`, an existing one is left unchanged.
    pub(crate) fn create_heap(
        &self,
        name: &str,
        definition: &HeapDefinition,
        keep: bool,
    ) -> Result<(), SqlError> {
        if self.keeper.get().is_none() {
            let keeper = Keeper::start(KeeperParts {
                catalog: Arc::clone(&self.catalog),
                heaps: Arc::clone(&self.heaps),
                budget: Arc::clone(&self.resources.budget),
                pins: Arc::clone(self.pins()),
            });
            let keeper = keeper.map_err(|e| SqlError::Task(format!("the thread of homes: {e}")))?;
            // If another session was faster, its thread is enough.
            drop(self.keeper.set(keeper));
        }
        let place = (&*self.resources.budget, self.data_dir.path());
        run_blocking(|| self.heaps.create(name, definition, keep, place, &self.memory_tiers))
    }

    /// Drops a heap, if it exists; its contents go back to the pool.
    pub(crate) fn drop_heap(&self, name: &str) -> bool {
        run_blocking(|| {
            let Some(heap) = self.heaps.take(name) else { return false };
            let schemas = self.catalog.schemas().into_iter();
            for table in schemas.flat_map(|schema| self.catalog.tables(&schema)) {
                placement::leave(&table.snapshot(), &heap);
            }
            true
        })
    }

    /// The names of the memory tiers, by their index in the pool.
    pub(crate) fn memory_tier_names(&self) -> &[String] {
        &self.memory_tiers
    }
}

impl Drop for EngineState {
    /// The lock on the directory is released after the last write to it.
    fn drop(&mut self) {
        if !self.end_tasks() {
            tracing::error!(data_dir = ?self.data_dir, "a write goes on after the engine's end");
        }
    }
}

impl fmt::Debug for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineState")
            .field("data_dir", &self.data_dir)
            .field("budget", &self.ledger().budget())
            .finish_non_exhaustive()
    }
}

/// The pool as the reserve of queries: the bytes it holds above its floor can be reclaimed.
#[derive(Debug)]
struct PoolReserve {
    pool: Pool,
    floor_bytes: u64,
    /// Copies of pages that scans pass on. The pool cannot release them, and no consumer can wait
    /// for them.
    copies: Arc<Consumer>,
}

impl PoolReserve {
    fn pool_bytes(&self) -> u64 {
        self.pool.dram_bytes().max(self.floor_bytes)
    }
}

impl Reserve for PoolReserve {
    fn release(&self, bytes: u64) -> u64 {
        self.pool.release_clean(bytes)
    }

    fn release_by_writing(&self, bytes: u64) -> u64 {
        self.pool.release(bytes)
    }

    fn releasable(&self) -> u64 {
        self.pool_bytes().saturating_sub(self.floor_bytes)
    }

    fn held(&self) -> u64 {
        self.pool_bytes().saturating_add(self.copies.held())
    }

    fn lent_frames(&self) -> u64 {
        self.pool.stats().owed_frames
    }
}

//! The engine: one budget, its tiers, the pool over them, and the database in it.

mod open;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace_exec::aside;
use terrace_market::{Consumer, Ledger};
use terrace_pool::{Placement, Pool};
use terrace_tier::TierSpec;
use terrace_tier::store::{Blocks, Store};

use crate::catalog::Catalog;
use crate::data_dir::DataDir;
use crate::error::SqlError;
use crate::files::{Files, SystemFiles};
use crate::home::{self, HeapDefinition, Heaps, Keeper, KeeperParts};
use crate::market::MarketReport;
use crate::memory::{ProcessMemory, Reserve};
use crate::pins::PagePins;
use crate::query::{Queries, QueryResources};
use crate::scan::ScanOptions;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::system::{TenantReport, TierReport};
use crate::tenancy::Tenancy;
use crate::write::Merger;
pub(crate) use open::DRAM_BYTES_MIN;

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The budget: bytes of DRAM for table data, working memory and everything else that counts.
    pub dram_bytes: u64,
    /// Slower memory tiers, fastest first, and at most one file or device for the store. Without
    /// one the store is a file in the directory of the database.
    pub tiers: Vec<TierSpec>,
    /// The directory of the database. Without one the database ends with the engine.
    pub data_dir: Option<PathBuf>,
    /// Partitions of a query: how many threads work on one at a time.
    pub threads: usize,
    /// Settings that every session begins with: names and values as SET has them.
    pub settings: Vec<(String, String)>,
    /// Where pages are.
    pub placement: Placement,
    /// How the engine learns what the process holds that no consumer accounts for, to keep it
    /// within the budget as well.
    pub process_memory: ProcessMemory,
    /// Bytes that the process may take. Where its memory is watched, and what no consumer accounts
    /// for takes it beyond that, the query that began last ends with an error.
    pub process_limit_bytes: Option<u64>,
}

impl EngineConfig {
    /// A database of its own directory that ends with the engine, with as many threads as there
    /// are processors.
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

/// Scans ask for one part in so many of the budget ahead of its use.
const AHEAD_SHARE: u64 = 16;

/// How long the end of an engine waits for a write: that of one chunk, or a commit, takes seconds
/// on a slow disk.
const TASK_PATIENCE: Duration = Duration::from_secs(60);

/// A running engine. Clones are the same one; it ends with the last of them and of its sessions.
#[derive(Clone, Debug)]
pub struct Engine {
    state: Arc<EngineState>,
}

/// What everything in an engine shares.
pub(crate) struct EngineState {
    // Fields are dropped in this order: nothing may use the store's file or the directory's lock
    // once they are gone.
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
    /// Opens the database in the directory of `config`, or a new one that ends with the engine.
    ///
    /// # Errors
    /// [`SqlError::Tier`] for tiers that this machine does not have, [`SqlError::Refused`] for a
    /// configuration that makes no sense or a setting that a session does not take; errors of the
    /// directory, the store, the pool and the catalog.
    pub fn open(config: &EngineConfig) -> Result<Self, SqlError> {
        Self::open_in(Arc::new(SystemFiles), config)
    }

    /// [`Engine::open`] with the directory of `config` in another file system. A tier that is a
    /// file or device is the machine's.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_in(files: Arc<dyn Files>, config: &EngineConfig) -> Result<Self, SqlError> {
        let state = open::assemble(open::prepare(files, config)?)?;
        Ok(Self { state: Arc::new(state) })
    }

    /// Opens a database whose pages are on `blocks`, of which it may use `capacity_bytes`. The
    /// tiers of `config` are not opened.
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

    /// A new session.
    ///
    /// # Errors
    /// [`SqlError::Pool`] when the pool cannot have one more space.
    pub fn session(&self) -> Result<Session, SqlError> {
        Session::new(Arc::clone(&self.state))
    }

    /// A new session that acts for a role of the database, and belongs to the role's tenant.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`]; [`SqlError::TenantFull`] when the tenant has as many sessions as
    /// it may; as [`Engine::session`].
    pub fn session_of(&self, role: &str) -> Result<Session, SqlError> {
        Session::of_role(Arc::clone(&self.state), role)
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.state.pool()
    }

    /// The ledger of the budget.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.state.ledger()
    }

    /// The tables.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.state.catalog()
    }

    /// The queries that run now.
    #[must_use]
    pub fn queries(&self) -> &Arc<Queries> {
        self.state.queries()
    }

    /// The account of the bytes that batches keep pinned.
    #[must_use]
    pub fn pins(&self) -> &Arc<PagePins> {
        self.state.pins()
    }

    /// The tiers with what they hold, fastest first.
    #[must_use]
    pub fn tiers(&self) -> Vec<TierReport> {
        TierReport::of(&self.state)
    }

    /// The market: its consumers and their last trades.
    #[must_use]
    pub fn market(&self) -> MarketReport {
        self.state.resources().market.report()
    }

    /// The tenants with their queries, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantReport> {
        TenantReport::of(&self.state)
    }

    /// The error after which the engine writes nothing more: the first that the store has met. It
    /// still answers queries of what it can read.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.pool().store().and_then(|store| store.latched())
    }

    /// Ends the engine, provided that nobody else uses it, once what it still writes is written.
    ///
    /// # Errors
    /// [`SqlError::Refused`] while a session or another clone is alive, [`SqlError::DataDir`] when
    /// a write does not end or the store has failed.
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
    /// Ends what merges chunks, and waits for writes that no statement waits for any more; false if
    /// one does not end.
    fn end_tasks(&self) -> bool {
        self.merger.stop();
        let tasks = self.catalog.tasks();
        tasks.wait(Duration::ZERO) || aside(|| tasks.wait(TASK_PATIENCE))
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

    /// The sessions.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// The sessions and queries of tenants.
    pub(crate) fn tenancy(&self) -> &Arc<Tenancy> {
        &self.tenancy
    }

    pub(crate) fn pins(&self) -> &Arc<PagePins> {
        &self.resources.pins
    }

    /// What every session begins with, as SET has it.
    pub(crate) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// The heaps that segments may live in.
    pub(crate) fn heaps(&self) -> &Heaps {
        &self.heaps
    }

    /// Makes a heap; with `keep`, one that is there is left as it is.
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
            // Another session was faster: one thread is enough.
            drop(self.keeper.set(keeper));
        }
        let place = (&*self.resources.budget, self.data_dir.path());
        aside(|| self.heaps.create(name, definition, keep, place, &self.memory_tiers))
    }

    /// Drops a heap, if there is one; what is in it goes back to the pool.
    pub(crate) fn drop_heap(&self, name: &str) -> bool {
        aside(|| {
            let Some(heap) = self.heaps.take(name) else { return false };
            let schemas = self.catalog.schemas().into_iter();
            for table in schemas.flat_map(|schema| self.catalog.tables(&schema)) {
                home::leave(&table.snapshot(), &heap);
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
    /// The lock on the directory goes after the last write to it.
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

/// The pool as the reserve of queries: what it holds above its floor.
#[derive(Debug)]
struct PoolReserve {
    pool: Pool,
    floor_bytes: u64,
    /// Of pages that scans hand on. They are not the pool's to give, and nobody's to wait for.
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

//! State of an engine that all of its sessions share.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace_cloud::CloudFiles;
use terrace_exec::run_blocking;
use terrace_governor::pins::PagePins;
use terrace_governor::query::Queries;
use terrace_governor::running::QueryResources;
use terrace_governor::tenancy::Tenancy;
use terrace_ledger::Ledger;
use terrace_pool::Pool;
use terrace_table::catalog::Catalog;
use terrace_table::data_dir::DataDir;
use terrace_table::error::SqlError;
use terrace_table::placement::{self, HeapDefinition, Heaps, Migrator, MigratorParts};
use terrace_table::scan::ScanOptions;
use terrace_table::write::Merger;

use crate::sessions::Sessions;

/// Share of the budget that a scan may read ahead: 1 / `AHEAD_SHARE`.
const AHEAD_SHARE: u64 = 16;

/// Maximum time that closing the engine waits for running writes. The write of a chunk or a commit
/// takes seconds on a slow disk.
const TASK_PATIENCE: Duration = Duration::from_secs(60);

/// Shared state of an engine.
pub(crate) struct EngineState {
    // Fields are dropped in this order: nothing may use the store's file or the directory's lock
    // after they are gone.
    pub(super) merger: Merger,
    /// Started with the first heap.
    pub(super) migrator: OnceLock<Migrator>,
    pub(super) heaps: Arc<Heaps>,
    /// Remote files (S3, HTTP), cached in the pool.
    pub(super) cloud: CloudFiles,
    pub(super) catalog: Arc<Catalog>,
    pub(super) resources: QueryResources,
    pub(super) queries: Arc<Queries>,
    pub(super) tenancy: Arc<Tenancy>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) partitions: usize,
    pub(super) settings: Vec<(String, String)>,
    pub(super) memory_tiers: Vec<String>,
    pub(super) data_dir: DataDir,
}

impl EngineState {
    /// Stops merging chunks, and waits for writes and commits that still run, also those whose
    /// statement was dropped. Returns false if one has not ended after [`TASK_PATIENCE`].
    pub(super) fn end_tasks(&self) -> bool {
        self.merger.stop();
        let tasks = self.catalog.tasks();
        tasks.wait(Duration::ZERO) || run_blocking(|| tasks.wait(TASK_PATIENCE))
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.resources.pool
    }

    /// Remote files (S3, HTTP) and their cache.
    pub(crate) fn cloud(&self) -> &CloudFiles {
        &self.cloud
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.resources.budget.ledger()
    }

    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The data directory.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.data_dir.path()
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

    /// Counts of the sessions and queries of each tenant.
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
        if self.migrator.get().is_none() {
            let migrator = Migrator::start(MigratorParts {
                catalog: Arc::clone(&self.catalog),
                heaps: Arc::clone(&self.heaps),
                budget: Arc::clone(&self.resources.budget),
                pins: Arc::clone(self.pins()),
            });
            let migrator = migrator
                .map_err(|e| SqlError::Task(format!("the thread that migrates segments: {e}")))?;
            // If another session was faster, its thread is enough.
            drop(self.migrator.set(migrator));
        }
        let place = (&*self.resources.budget, self.data_dir.path());
        run_blocking(|| self.heaps.create(name, definition, keep, place, &self.memory_tiers))
    }

    /// Drops a heap; its segments go back to the pool. Returns false if no heap has this name.
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
    /// Waits for running writes, so that the lock on the data directory is released after them.
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

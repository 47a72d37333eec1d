//! The engine: a memory budget, the tiers, the buffer pool over them, and the database.

mod config;
mod file_cache;
mod open;
mod reserve;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use terrace_ledger::Ledger;
use terrace_pool::Pool;
use terrace_store::{Blocks, Store};

use crate::session::Session;
use crate::system::{TenantReport, TierReport};
use terrace_governor::market::MarketReport;
use terrace_governor::pins::PagePins;
use terrace_governor::query::Queries;
use terrace_table::catalog::Catalog;
use terrace_table::error::SqlError;
use terrace_table::files::{Files, SystemFiles};

pub use config::EngineConfig;
pub(crate) use state::EngineState;

/// A running engine. Clones share its state, which is dropped with the last clone and the last
/// session.
#[derive(Clone, Debug)]
pub struct Engine {
    state: Arc<EngineState>,
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

    /// Like [`Engine::open`], with the data directory in the file system `files`. Tiers that are
    /// files or devices are still those of the operating system.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_in(files: Arc<dyn Files>, config: &EngineConfig) -> Result<Self, SqlError> {
        let state = open::assemble(open::prepare(files, config)?)?;
        Ok(Self { state: Arc::new(state) })
    }

    /// Opens a database whose store is on `blocks`, of which it may use `capacity_bytes`. The tiers
    /// of `config` are ignored.
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

    /// The initial settings of every session: names and values as for SET.
    #[must_use]
    pub fn settings(&self) -> &[(String, String)] {
        self.state.settings()
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

    /// Waits for pending writes and closes the engine, if no session or other clone exists.
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

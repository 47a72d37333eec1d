//! Assembly of an engine from its parts.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use terrace_cloud::CloudFiles;
use terrace_governor::market::Market;
use terrace_governor::memory::{DRAM_BYTES_MIN, MemoryBudget, ProcessLimit, ProcessMemory, Watch};
use terrace_governor::pins::PagePins;
use terrace_governor::query::Queries;
use terrace_governor::running::QueryResources;
use terrace_ledger::{Class, Ledger};
use terrace_pool::{Placement, Pool, PoolConfig};
use terrace_store::Store;
use terrace_sys::probe::Probe;
use terrace_sys::size::{MIB, format_bytes};
use terrace_table::catalog::{Catalog, Lifetime};
use terrace_table::data_dir::DataDir;
use terrace_table::error::SqlError;
use terrace_table::files::Files;
use terrace_table::write::Merger;
use terrace_tier::{MemoryTier, TierError, TierSpec};

use super::config::EngineConfig;
use super::file_cache::FileCache;
use super::reserve::PoolReserve;
use super::state::EngineState;
use crate::session::{MARKET_SETTING, TENANT_SETTING, check_settings};
use crate::sessions::Sessions;

/// Recorded name of a store that is the file in the data directory; not a path, so that the
/// directory can be moved.
const OWN_STORE: &str = "own";

/// Minimum floor of the pool in bytes, for budgets of at least 4 times as much.
const FLOOR_BYTES_MIN: u64 = 8 * MIB;
/// Share of the store that may cache remote files (S3, HTTP): 1 / `CLOUD_SHARE`.
const CLOUD_SHARE: u64 = 4;

/// Opened parts of an engine, from which [`assemble`] starts it.
pub(super) struct Parts {
    pub(super) dram_bytes: u64,
    pub(super) slower_memory: Vec<MemoryTier>,
    pub(super) store: Arc<Store>,
    pub(super) keep: Keep,
    pub(super) data_dir: DataDir,
    pub(super) threads: usize,
    pub(super) settings: Vec<(String, String)>,
    pub(super) placement: Placement,
    pub(super) process_memory: ProcessMemory,
    pub(super) process_limit_bytes: Option<u64>,
}

/// Opens the tiers and the data directory of a configuration.
pub(super) fn prepare(files: Arc<dyn Files>, config: &EngineConfig) -> Result<Parts, SqlError> {
    let probe = Probe::detect();
    let dram = TierSpec::Dram { capacity_bytes: config.dram_bytes };
    if config.tiers.iter().any(|tier| matches!(tier, TierSpec::Dram { .. })) {
        let instead = "DRAM is the budget, which --dram sets".to_owned();
        return Err(SqlError::Refused { what: "a tier of DRAM".to_owned(), instead });
    }
    let all: Vec<_> = std::iter::once(dram).chain(config.tiers.iter().cloned()).collect();
    TierSpec::validate_all(&all, &probe)?;
    let mut slower_memory = Vec::new();
    let mut stores = Vec::new();
    for tier in &config.tiers {
        match tier.memory_tier(&probe)? {
            Some(memory) => slower_memory.push(memory),
            None => stores.push(tier),
        }
    }
    if let [_, second, ..] = stores.as_slice() {
        let instead = "one file or device holds all pages; name one".to_owned();
        return Err(SqlError::Refused { what: format!("a second store, {second}"), instead });
    }
    let data_dir = open_dir(files, config)?;
    let (store, keep) = open_store(&data_dir, stores.first().copied())?;
    let (dram_bytes, threads) = (config.dram_bytes, config.threads);
    let (store, settings) = (Arc::new(store), config.settings.clone());
    Ok(Parts {
        dram_bytes,
        slower_memory,
        store,
        keep,
        data_dir,
        threads,
        settings,
        placement: config.placement,
        process_memory: config.process_memory,
        process_limit_bytes: config.process_limit_bytes,
    })
}

/// Opens the data directory of a configuration.
pub(super) fn open_dir(files: Arc<dyn Files>, config: &EngineConfig) -> Result<DataDir, SqlError> {
    match &config.data_dir {
        Some(path) => DataDir::open_in(files, path),
        None => DataDir::temporary(),
    }
}

/// Opens the store in the file or device of `tier`, or without one in a file of the data directory.
/// A store that the directory was created with must exist; the catalog verifies by its label that
/// it is the same one.
fn open_store(data_dir: &DataDir, tier: Option<&TierSpec>) -> Result<(Store, Keep), SqlError> {
    if data_dir.is_temporary() && tier.is_none() {
        return Ok((Store::temporary(data_dir.path(), None)?, Keep::Nothing));
    }
    let own = TierSpec::file(data_dir.store(), None);
    let tier = tier.map(absolute).transpose()?.unwrap_or_else(|| own.clone());
    // The catalog compares the label before any byte is written.
    if data_dir.is_temporary() {
        return Ok((opened(&tier, tier.overwrite_store()?)?, Keep::Nothing));
    }
    let name = if tier == own { OWN_STORE.to_owned() } else { tier.name() };
    let open = |create| -> Result<Option<Store>, TierError> {
        match (tier == own, create) {
            (true, _) => Ok(Some(data_dir.files().open_store(&data_dir.store(), create)?)),
            (false, true) => tier.overwrite_store(),
            (false, false) => tier.reopen_store(),
        }
    };
    let Some(kept) = data_dir.kept_store()? else {
        return Ok((opened(&tier, open(true)?)?, Keep::Name { name, tier }));
    };
    if kept == name {
        let store = open(false).map_err(|error| SqlError::DataDir {
            path: data_dir.path().to_owned(),
            what: format!("the pages of its tables are not to be had: {error}"),
        });
        return Ok((opened(&tier, store?)?, Keep::Nothing));
    }
    // The store may have been moved; its label tells.
    let moved = tier.reopen_store().ok().flatten();
    let store = moved.filter(|_| tier != own).ok_or_else(|| elsewhere(data_dir, &kept, &name))?;
    Ok((store, Keep::Name { name, tier }))
}

fn opened(tier: &TierSpec, store: Option<Store>) -> Result<Store, SqlError> {
    store.ok_or_else(|| SqlError::Task(format!("{tier} is no store")))
}

/// The error for a store that is not where the data directory says.
fn elsewhere(data_dir: &DataDir, kept: &str, name: &str) -> SqlError {
    let what = match (kept, name) {
        (OWN_STORE, _) => {
            format!("its pages are in its own store, not in {name}; leave the tier out")
        }
        (_, OWN_STORE) => format!("its pages are in {kept}; say --tier {kept}"),
        _ => format!("its pages are in {kept}, not in {name}; say --tier {kept}"),
    };
    SqlError::DataDir { path: data_dir.path().to_owned(), what }
}

/// The same tier with an absolute path.
fn absolute(tier: &TierSpec) -> Result<TierSpec, SqlError> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| SqlError::DataDirIo {
            path: path.to_owned(),
            action: "find the directory it is in",
            source,
        })
    };
    let mut tier = tier.clone();
    if let TierSpec::File { path, .. } | TierSpec::Device { path, .. } = &mut tier {
        *path = absolute(path)?;
    }
    Ok(tier)
}

/// The store to record in the data directory once the database is open.
pub(super) enum Keep {
    Nothing,
    Name { name: String, tier: TierSpec },
}

impl Keep {
    /// Records the store: from here on it must exist.
    fn settle(self, data_dir: &DataDir) -> Result<(), SqlError> {
        let Self::Name { name, tier } = self else { return Ok(()) };
        // Makes the directory entry of the store durable before its name is recorded.
        if let TierSpec::File { path, .. } = &tier
            && name != OWN_STORE
            && let Some(parent) = path.parent()
        {
            terrace_sys::file::sync_directory(parent).map_err(|source| SqlError::DataDirIo {
                path: parent.to_owned(),
                action: "sync it",
                source,
            })?;
        }
        data_dir.keep_store(&name)
    }
}

/// Starts the pool and opens the catalog.
pub(super) fn assemble(parts: Parts) -> Result<EngineState, SqlError> {
    let Parts { dram_bytes, slower_memory, store, keep, data_dir, threads, settings, .. } = parts;
    check_settings(&settings)?;
    if dram_bytes < DRAM_BYTES_MIN {
        return Err(SqlError::Refused {
            what: format!("a budget of {}", format_bytes(dram_bytes)),
            instead: format!("it takes at least {}", format_bytes(DRAM_BYTES_MIN)),
        });
    }
    let ledger = Ledger::new(dram_bytes);
    let mut memory = vec![MemoryTier::dram(dram_bytes)];
    memory.extend(slower_memory);
    let memory_tiers = memory.iter().map(|tier| tier.name.clone()).collect();
    let floor_bytes = floor_bytes(dram_bytes);
    let pool = Pool::new(PoolConfig {
        memory,
        store: Some(store),
        floor_bytes,
        overdraft_bytes: (dram_bytes / 8).clamp(OVERDRAFT_BYTES.0, OVERDRAFT_BYTES.1),
        placement: parts.placement,
        ..PoolConfig::new("pool", ledger.clone())
    })?;
    let copies = Arc::new(ledger.register("copies of pages", Class::Query));
    let reserve =
        Arc::new(PoolReserve { pool: pool.clone(), floor_bytes, copies: Arc::clone(&copies) });
    let budget = Arc::new(MemoryBudget::new(ledger, reserve));
    let pins = PagePins::new(floor_bytes / 2).with_copies(Arc::clone(&budget), copies);
    let pins = Arc::new(pins);
    let catalog = open_catalog(&data_dir, &pool, &pins)?;
    for (_, name) in
        settings.iter().filter(|(name, tenant)| name == TENANT_SETTING && !tenant.is_empty())
    {
        if catalog.tenant(name).is_none() {
            return Err(SqlError::MissingTenant { name: name.clone() });
        }
    }
    keep.settle(&data_dir)?;
    let queries = Arc::new(Queries::default());
    let sessions = Arc::new(Sessions::new(&budget));
    let market = Market::open(&queries, &budget, pool.store().cloned());
    let market = market.map_err(|error| SqlError::Task(format!("the market's thread: {error}")))?;
    let market = Arc::new(market);
    for (_, kind) in settings.iter().filter(|(name, _)| name == MARKET_SETTING) {
        market.choose(kind.parse()?);
    }
    let limit = parts.process_limit_bytes.map(|bytes| {
        let queries = Arc::clone(&queries);
        ProcessLimit { bytes, end_query: Box::new(move |why| queries.end_youngest(why)) }
    });
    let watch = watch(parts.process_memory, &budget, &pool, limit);
    let watch = watch.map_err(|error| SqlError::Task(format!("the thread of memory: {error}")))?;
    let merger = Merger::start(&catalog, &budget);
    let merger =
        merger.map_err(|error| SqlError::Task(format!("the thread of merges: {error}")))?;
    Ok(EngineState {
        merger,
        migrator: OnceLock::new(),
        heaps: Arc::default(),
        cloud: remote_files(&pool, &market)?,
        catalog,
        resources: QueryResources { budget, pool, pins, market, watch: Arc::new(watch) },
        queries,
        tenancy: Arc::default(),
        sessions,
        partitions: threads.max(1),
        settings,
        memory_tiers,
        data_dir,
    })
}

/// Opens the cache of remote files, with a share of the store.
fn remote_files(pool: &Pool, market: &Market) -> Result<CloudFiles, SqlError> {
    let store_bytes = pool.store().map_or(0, |store| store.stats().capacity_bytes);
    let consumer = Arc::new(FileCache::new(market.files()));
    Ok(CloudFiles::observed(pool, store_bytes / CLOUD_SHARE, consumer)?)
}

/// Opens the catalog of the data directory over the pool.
fn open_catalog(
    data_dir: &DataDir,
    pool: &Pool,
    pins: &Arc<PagePins>,
) -> Result<Arc<Catalog>, SqlError> {
    let lifetime = match data_dir.is_temporary() {
        true => Lifetime::Temporary,
        false => Lifetime::Lasting,
    };
    let (pool, pins) = (pool.clone(), Arc::clone(pins));
    Catalog::open(data_dir.files(), &data_dir.catalog(), pool, pins, lifetime)
}

/// Starts watching the process's memory outside of the pool and the queries.
fn watch(
    memory: ProcessMemory,
    budget: &Arc<MemoryBudget>,
    pool: &Pool,
    limit: Option<ProcessLimit>,
) -> std::io::Result<Watch> {
    let pool = pool.clone();
    let slower = move || pool.stats().tiers.iter().skip(1).map(|tier| tier.used_bytes).sum();
    Watch::start(budget, memory.reading(budget, slower), limit)
}

/// Minimum and maximum of the bytes beyond the budget that break a deadlock of operators that have
/// pinned all of it and wait for each other.
const OVERDRAFT_BYTES: (u64, u64) = (4 * MIB, 64 * MIB);

/// Returns the bytes of DRAM that queries cannot take from the pool: enough to read and write pages
/// while operators hold all other bytes of the budget. One half holds the longest segment and a
/// page to spill to for each of two threads, the other half the pages that batches keep pinned. It
/// is not larger because operators that cannot spill need the other bytes.
fn floor_bytes(dram_bytes: u64) -> u64 {
    (dram_bytes / 8).max(FLOOR_BYTES_MIN).min(dram_bytes / 4)
}

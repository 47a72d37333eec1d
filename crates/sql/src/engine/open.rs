//! Puts an engine together from its parts.

use std::sync::Arc;
use std::{fs, io};

use terrace_market::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_sys::probe::Probe;
use terrace_sys::size::{MIB, format_bytes};
use terrace_tier::store::Store;
use terrace_tier::{MemoryTier, TierSpec};

use super::{EngineConfig, EngineState, PoolReserve};
use crate::catalog::Catalog;
use crate::data_dir::DataDir;
use crate::error::SqlError;
use crate::memory::MemoryBudget;
use crate::pins::PagePins;
use crate::query::{Queries, QueryResources};
use crate::scan::ScanOptions;

/// The smallest budget: a chunk that is gathered, one that is written, the longest segment of each
/// in a page, and something to work in.
pub(super) const DRAM_BYTES_MIN: u64 = 32 * MIB;

/// Where a data directory keeps the name of its store, and what it says of its own file.
const STORE_FILE: &str = "STORE";
const OWN_STORE: &str = "own";

/// The least that the pool keeps of a budget that is not tiny.
const FLOOR_BYTES_MIN: u64 = 8 * MIB;

/// The parts of an engine.
pub(super) struct Parts {
    pub(super) dram_bytes: u64,
    pub(super) slower_memory: Vec<MemoryTier>,
    pub(super) store: Arc<Store>,
    pub(super) data_dir: DataDir,
    pub(super) threads: usize,
}

/// Finds the tiers and the directory that a configuration names.
pub(super) fn prepare(config: &EngineConfig) -> Result<Parts, SqlError> {
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
    let data_dir = open_dir(config)?;
    let store = Arc::new(open_store(&data_dir, stores.first().copied())?);
    let (dram_bytes, threads) = (config.dram_bytes, config.threads);
    Ok(Parts { dram_bytes, slower_memory, store, data_dir, threads })
}

/// The data directory of a configuration.
pub(super) fn open_dir(config: &EngineConfig) -> Result<DataDir, SqlError> {
    match &config.data_dir {
        Some(path) => DataDir::open(path),
        None => DataDir::temporary(),
    }
}

/// Opens the store in the file or device of `tier`, or where there is none in a file of the data
/// directory.
fn open_store(data_dir: &DataDir, tier: Option<&TierSpec>) -> Result<Store, SqlError> {
    if data_dir.is_temporary() && tier.is_none() {
        return Ok(Store::temporary(data_dir.path(), None)?);
    }
    let own = TierSpec::File { path: data_dir.store(), capacity_bytes: None };
    let tier = tier.unwrap_or(&own);
    if !data_dir.is_temporary() {
        remember_store(data_dir, tier, tier == &own)?;
    }
    let store = tier.open_store()?;
    store.ok_or_else(|| SqlError::Task(format!("{tier} is no store")))
}

/// Refuses a store other than the one the directory was made with: the catalog's extents are in
/// that one. What the directory's own file is called is not kept, so that it can be moved.
fn remember_store(data_dir: &DataDir, tier: &TierSpec, own: bool) -> Result<(), SqlError> {
    let file = data_dir.path().join(STORE_FILE);
    let name = if own { OWN_STORE.to_owned() } else { tier.name() };
    let failed = |action| {
        let path = file.clone();
        move |source| SqlError::DataDirIo { path, action, source }
    };
    match fs::read_to_string(&file) {
        Ok(kept) if kept.trim() == name => Ok(()),
        Ok(kept) => Err(SqlError::DataDir {
            path: data_dir.path().to_owned(),
            what: match kept.trim() {
                OWN_STORE => format!(
                    "its pages are in its own store, not in {name}; leave the \
                                      tier out"
                ),
                kept => format!("its pages are in {kept}, not in {name}; say --tier {kept}"),
            },
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::write(&file, format!("{name}\n")).map_err(failed("write it"))
        }
        Err(source) => Err(failed("read it")(source)),
    }
}

/// Starts the pool and opens the catalog.
pub(super) fn assemble(parts: Parts) -> Result<EngineState, SqlError> {
    let Parts { dram_bytes, slower_memory, store, data_dir, threads } = parts;
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
        ..PoolConfig::new("pool", ledger.clone())
    })?;
    let catalog = Catalog::open(&data_dir.catalog(), pool.clone())?;
    let reserve = Arc::new(PoolReserve { pool: pool.clone(), floor_bytes });
    let budget = Arc::new(MemoryBudget::new(ledger, reserve));
    let pins = Arc::new(PagePins::new(floor_bytes / 2));
    Ok(EngineState {
        catalog,
        resources: QueryResources { budget, pool, pins: Arc::clone(&pins) },
        queries: Arc::new(Queries::default()),
        scans: ScanOptions {
            partitions: threads.max(1),
            ahead_bytes: dram_bytes / 16,
            pins: Arc::clone(&pins),
        },
        memory_tiers,
        data_dir,
    })
}

/// DRAM that the pool keeps from queries: enough to read and write pages while the operators hold
/// all the rest. That is the longest segment and a page to spill to, for two threads, and the
/// other half for what batches keep pinned; not more, because operators that cannot spill need
/// what they can get.
fn floor_bytes(dram_bytes: u64) -> u64 {
    (dram_bytes / 8).max(FLOOR_BYTES_MIN).min(dram_bytes / 4)
}

//! Fresh Terrace databases over a store in memory.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use terrace_sql::{Engine, EngineConfig, Session};
use terrace_store::MemoryBlocks;

use crate::error::{CheckError, Result};

/// A file system in memory, used where it exists: a commit then waits for no disk.
const MEMORY: &str = "/dev/shm";

/// Size of the store in bytes; memory is taken only for what is written.
const STORE_BYTES: u64 = 8 << 30;

/// Memory limit of the process in bytes; a query whose result exceeds it ends with an error.
const PROCESS_BYTES: u64 = 6 << 30;

/// A fresh database; dropping this value closes it.
pub struct Database {
    session: Arc<Session>,
    engine: Engine,
    /// The data directory; removed after the engine is gone.
    _directory: TempDir,
}

impl Database {
    /// Opens a new database with a memory budget and a number of partitions for each query.
    ///
    /// # Errors
    /// [`CheckError::Engine`] or [`CheckError::File`].
    pub fn open(dram_bytes: u64, threads: usize) -> Result<Self> {
        let memory = Path::new(MEMORY);
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("terrace-sqltest-").tempdir_in(&parent);
        let directory = directory.map_err(|error| CheckError::file("create", &parent, error))?;
        let data_dir = Some(directory.path().to_owned());
        let process_limit_bytes = Some(PROCESS_BYTES);
        let config = EngineConfig {
            threads,
            data_dir,
            process_limit_bytes,
            ..EngineConfig::new(dram_bytes)
        };
        let blocks = Arc::new(MemoryBlocks::new(STORE_BYTES));
        let engine = Engine::over_blocks(&config, blocks, STORE_BYTES)?;
        let session = Arc::new(engine.session()?);
        Ok(Self { session, engine, _directory: directory })
    }

    /// Returns the session that statements run in.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

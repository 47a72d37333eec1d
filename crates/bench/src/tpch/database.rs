//! TPC-H tables in a directory, for engines that are opened one after the other.

use terrace_sql::{Engine, EngineConfig};

use crate::error::Result;
use crate::measure::Scratch;
use crate::setting::Setting;
use crate::suite::load::{load, refused};
use crate::tpch::table::Table;

/// The tables, which are removed on drop unless the user gave the directory.
pub(crate) struct Database {
    /// Configuration of the engines over the tables.
    config: EngineConfig,
    /// Encoding of the tables as text.
    encoding: String,
    _home: Scratch,
}

impl Database {
    /// Loads the missing tables. The budget of this and of all later engines is the user's, or else
    /// `dram_bytes`.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded.
    pub(crate) async fn load(
        setting: &Setting,
        purpose: &str,
        dram_bytes: u64,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let dram_bytes = if setting.dram_is_named { setting.engine.dram_bytes } else { dram_bytes };
        let home = Scratch::of(setting.engine.data_dir.as_deref(), purpose)?;
        let data_dir = Some(home.path().join("data"));
        let config = EngineConfig { dram_bytes, data_dir, ..setting.engine.clone() };
        let mut database = Self { config, encoding: String::new(), _home: home };
        let engine = database.open()?;
        let loading = |table: Table| observe(&format!("loading {table}"));
        let encoding = setting.encoding.unwrap_or_default();
        database.encoding = load(&engine, &setting.generator(), encoding, loading).await?.encoding;
        engine.close().map_err(refused)?;
        Ok(database)
    }

    /// Returns the configuration of the engines.
    pub(crate) fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Returns the encoding of the tables as text.
    pub(crate) fn encoding(&self) -> &str {
        &self.encoding
    }

    /// Opens an engine with cold caches.
    ///
    /// # Errors
    /// Fails if the engine does not open.
    pub(crate) fn open(&self) -> Result<Engine> {
        Engine::open(&self.config).map_err(refused)
    }
}

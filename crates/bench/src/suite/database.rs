//! Tables of TPC-H in a directory, for engines that are opened one after the other.

use terrace_sql::{Engine, EngineConfig};

use crate::error::Result;
use crate::experiment::Setting;
use crate::scratch::Scratch;
use crate::suite::load::{load, refused};
use crate::tpch::table::Table;

/// The tables. They go with the value unless the directory was named.
pub(crate) struct Database {
    /// How an engine over them is opened.
    config: EngineConfig,
    /// The encoding of the tables.
    encoding: String,
    _home: Scratch,
}

impl Database {
    /// Loads the tables of a setting where they are missing, with the budget that was named or
    /// `dram_bytes`, which is also that of the engines.
    ///
    /// # Errors
    /// When they cannot be loaded.
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

    /// How its engines are set up.
    pub(crate) fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The encoding of its tables, in words.
    pub(crate) fn encoding(&self) -> &str {
        &self.encoding
    }

    /// An engine that finds nothing in memory.
    ///
    /// # Errors
    /// When it does not open.
    pub(crate) fn open(&self) -> Result<Engine> {
        Engine::open(&self.config).map_err(refused)
    }
}

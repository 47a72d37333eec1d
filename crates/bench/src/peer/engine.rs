//! The engines that are compared, and their databases over the same tables.

use std::path::PathBuf;
use std::process::Command;

use serde::Serialize;
use terrace_sql::{Encoding, Engine, EngineConfig};
use terrace_sys::size::GIB;

use crate::duckdb::package::{DUCKDB, Python};
use crate::error::{BenchError, Result};
use crate::experiment::Setting;
use crate::peer::process::{Client, Peer};
use crate::peer::serve::PEER_COMMAND;
use crate::scratch::Scratch;
use crate::suite::child;
use crate::suite::export::export;
use crate::suite::feed::Generator;
use crate::suite::load::{load, refused};
use crate::tpch::table::Table;

/// Budget under which our tables are loaded.
const LOAD_DRAM_BYTES: u64 = GIB;

/// An engine that runs as a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    /// Our engine over its own tables.
    Terrace,
    /// DuckDB over its own database file.
    DuckDb,
    /// DataFusion as it comes, over Parquet files.
    DataFusion,
}

impl Contender {
    /// What tables and pictures call it.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Terrace => "terrace",
            Contender::DuckDb => "DuckDB",
            Contender::DataFusion => "DataFusion",
        }
    }
}

/// The databases of the contenders, which hold the same TPC-H tables. They go with the value
/// unless the directory was named.
pub struct Arena {
    home: Scratch,
    setting: Setting,
    duckdb: std::result::Result<Python, BenchError>,
}

impl Arena {
    /// Generates and loads what is missing.
    ///
    /// # Errors
    /// When our tables cannot be loaded or no files be written. DuckDB may be missing:
    /// [`Arena::missing`].
    pub async fn prepare(
        setting: &Setting,
        purpose: &str,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Arena> {
        let home = Scratch::of(setting.engine.data_dir.as_deref(), purpose)?;
        observe("looking for DuckDB");
        let duckdb = Python::with(DUCKDB).await;
        let mut arena = Arena { home, setting: setting.clone(), duckdb };
        let generator = setting.generator();
        arena.load(&generator, observe).await?;
        if !arena.files().join("lineitem.parquet").exists() {
            observe("writing Parquet files");
            let made = std::fs::create_dir_all(arena.files());
            made.map_err(|source| BenchError::file("create", &arena.files(), source))?;
            export::<Table>(&generator, &arena.files()).await?;
        }
        if let Err(error) = arena.load_duckdb(observe).await {
            arena.duckdb = Err(error);
        }
        Ok(arena)
    }

    async fn load(&self, generator: &Generator, observe: &mut dyn FnMut(&str)) -> Result<()> {
        let config = EngineConfig {
            dram_bytes: LOAD_DRAM_BYTES,
            data_dir: Some(self.tables()),
            ..self.setting.engine.clone()
        };
        let engine = Engine::open(&config).map_err(refused)?;
        let loading = |table: Table| observe(&format!("loading {table}"));
        load(&engine, generator, Encoding::default(), loading).await?;
        engine.close().map_err(refused)
    }

    async fn load_duckdb(&self, observe: &mut dyn FnMut(&str)) -> Result<()> {
        let Ok(python) = &self.duckdb else { return Ok(()) };
        if self.database().exists() {
            return Ok(());
        }
        observe("loading DuckDB");
        let mut script = python.script(include_str!("../duckdb/load.py"));
        script.arg(self.database()).arg(self.files());
        child::output(script, Vec::new(), "loading DuckDB").await.map(|_| ())
    }

    /// Our tables.
    fn tables(&self) -> PathBuf {
        self.home.path().join("terrace")
    }

    /// Parquet files of the same rows.
    fn files(&self) -> PathBuf {
        self.home.path().join("parquet")
    }

    fn database(&self) -> PathBuf {
        self.home.path().join("duckdb.db")
    }

    /// Why DuckDB does not take part, in a line for a report.
    pub fn missing(&self) -> Option<String> {
        let error = self.duckdb.as_ref().err()?;
        Some(format!("DuckDB is missing, so nothing is compared with it: {error}"))
    }

    /// Whether a contender takes part.
    pub fn has(&self, contender: Contender) -> bool {
        contender != Contender::DuckDb || self.duckdb.is_ok()
    }

    /// Starts a contender with a budget and so many clients.
    ///
    /// # Errors
    /// As [`Peer::start`].
    pub async fn start(
        &self,
        contender: Contender,
        dram_bytes: u64,
        clients: usize,
    ) -> Result<(Peer, Vec<Client>)> {
        let command = match contender {
            Contender::DuckDb => self.duckdb_command(dram_bytes, clients)?,
            Contender::Terrace => self.own_command("terrace", dram_bytes, clients),
            Contender::DataFusion => self.own_command("datafusion", dram_bytes, clients),
        };
        Peer::start(contender.name(), command, clients).await
    }

    fn duckdb_command(&self, dram_bytes: u64, clients: usize) -> Result<Command> {
        let Ok(python) = &self.duckdb else {
            return Err(BenchError::Peer(self.missing().unwrap_or_default()));
        };
        let mut script = python.script(include_str!("../duckdb/peer.py"));
        script.arg(self.database()).args([
            format!("{dram_bytes}B"),
            self.setting.engine.threads.to_string(),
            clients.to_string(),
        ]);
        Ok(script)
    }

    fn own_command(&self, engine: &str, dram_bytes: u64, clients: usize) -> Command {
        let mut command = Command::new(&self.setting.program);
        command
            .args([PEER_COMMAND, "--engine", engine])
            .args(["--dram", &dram_bytes.to_string()])
            .args(["--threads", &self.setting.engine.threads.to_string()])
            .args(["--placement", self.setting.engine.placement.name()])
            .args(["--clients", &clients.to_string()])
            .arg("--files")
            .arg(self.files())
            .arg("--data")
            .arg(self.tables());
        for tier in &self.setting.engine.tiers {
            command.arg("--tier").arg(tier.to_string());
        }
        command
    }
}

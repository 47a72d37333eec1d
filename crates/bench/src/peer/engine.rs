//! Engines that are compared, and their databases with the same tables.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde::Serialize;
use terrace_sql::{Engine, EngineConfig};
use terrace_sys::page_cache::drop_pages;
use terrace_sys::size::{GIB, format_bytes};

use crate::duckdb::package::{DUCKDB, Python};
use crate::error::{BenchError, Result};
use crate::measure::Scratch;
use crate::peer::control_group::{ControlGroup, MemoryController};
use crate::peer::process::{Client, Peer};
use crate::peer::serve::PEER_COMMAND;
use crate::report::Machine;
use crate::setting::Setting;
use crate::suite::child;
use crate::suite::export::export;
use crate::suite::feed::Generator;
use crate::suite::load::{load, refused};
use crate::tpch::table::Table;

/// Python program that runs DuckDB as a peer.
const PEER: &str = concat!(include_str!("../duckdb/values.py"), include_str!("../duckdb/peer.py"));

/// Budget under which Terrace's tables are loaded.
const LOAD_DRAM_BYTES: u64 = GIB;

/// An engine that runs as a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    /// Terrace over its own tables.
    Terrace,
    /// DuckDB over its own database file.
    DuckDb,
    /// Unmodified DataFusion over Parquet files.
    DataFusion,
}

impl Contender {
    /// Returns the name in tables and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Terrace => "terrace",
            Contender::DuckDb => "DuckDB",
            Contender::DataFusion => "DataFusion",
        }
    }

    /// Returns true if the measured time does not include the conversion of rows for a reply. It
    /// does for DuckDB, whose driver converts rows to Python objects while it runs the query.
    pub fn answers_untimed(self) -> bool {
        self != Contender::DuckDb
    }
}

/// Databases of the contenders, which hold the same TPC-H tables. They are removed on drop unless
/// the user gave the directory.
pub struct Arena {
    home: Scratch,
    setting: Setting,
    duckdb: Result<Python>,
    groups: Result<MemoryController, String>,
    encoding: String,
}

impl Arena {
    /// Generates and loads the tables that are missing.
    ///
    /// # Errors
    /// Fails if Terrace's tables cannot be loaded or files cannot be written. A missing DuckDB is
    /// not an error: [`Arena::missing`].
    pub async fn prepare(
        setting: &Setting,
        purpose: &str,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Arena> {
        let home = Scratch::of(setting.engine.data_dir.as_deref(), purpose)?;
        observe("looking for DuckDB");
        let duckdb = Python::with(DUCKDB).await;
        let groups = MemoryController::find();
        let encoding = String::new();
        let mut arena = Arena { home, setting: setting.clone(), duckdb, groups, encoding };
        let generator = setting.generator();
        arena.encoding = arena.load(&generator, observe).await?;
        if !arena.files().join("lineitem.parquet").exists() {
            observe("writing Parquet files");
            let made = fs::create_dir_all(arena.files());
            made.map_err(|source| BenchError::file("create", &arena.files(), source))?;
            export::<Table>(&generator, &arena.files()).await?;
        }
        if let Err(error) = arena.load_duckdb(observe).await {
            arena.duckdb = Err(error);
        }
        Ok(arena)
    }

    async fn load(&self, generator: &Generator, observe: &mut dyn FnMut(&str)) -> Result<String> {
        let config = EngineConfig {
            dram_bytes: LOAD_DRAM_BYTES,
            data_dir: Some(self.tables()),
            ..self.setting.engine.clone()
        };
        let engine = Engine::open(&config).map_err(refused)?;
        let loading = |table: Table| observe(&format!("loading {table}"));
        let encoding = self.setting.encoding.unwrap_or_default();
        let loaded = load(&engine, generator, encoding, loading).await?;
        engine.close().map_err(refused)?;
        Ok(loaded.encoding)
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

    /// Returns the directory of all databases.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the directory of Terrace's tables.
    pub fn tables(&self) -> PathBuf {
        self.home.path().join("terrace")
    }

    /// Returns the directory of the Parquet files with the same rows.
    fn files(&self) -> PathBuf {
        self.home.path().join("parquet")
    }

    fn database(&self) -> PathBuf {
        self.home.path().join("duckdb.db")
    }

    /// Returns the reason that DuckDB is missing from the comparison, as a line of a report; `None`
    /// if it is not.
    pub fn missing(&self) -> Option<String> {
        let error = self.duckdb.as_ref().err()?;
        Some(format!("DuckDB is missing, so nothing is compared with it: {error}"))
    }

    /// Returns the encoding of Terrace's tables as text.
    pub fn encoding(&self) -> &str {
        &self.encoding
    }

    /// Returns the memory limit of the engines as a line of a report. `rule` names the engines that
    /// run in a control group, and its limit.
    pub fn memory_limit(&self, rule: &str) -> String {
        match &self.groups {
            Ok(groups) => format!(
                "{rule} ({}), page cache included; at the start none of its files is in the page \
                 cache",
                groups.name(),
            ),
            Err(reason) => format!(
                "NOT LIMITED: DuckDB and DataFusion read their files through the page cache of the \
                 machine ({}), which no budget holds; terrace reads past it. A control group would \
                 limit it, but cannot be made: {reason}",
                format_bytes(Machine::detect().memory_bytes)
            ),
        }
    }

    /// Returns true unless the contender is DuckDB and DuckDB is missing.
    pub fn has(&self, contender: Contender) -> bool {
        contender != Contender::DuckDb || self.duckdb.is_ok()
    }

    /// Starts a contender with a budget and a number of clients.
    ///
    /// # Errors
    /// As [`Peer::start`].
    pub async fn start(
        &self,
        contender: Contender,
        dram_bytes: u64,
        clients: usize,
    ) -> Result<(Peer, Vec<Client>)> {
        let command = self.command(contender, dram_bytes, clients)?;
        Peer::start(contender.name(), command, clients).await
    }

    /// As [`Arena::start`], in a control group limited to `limit_bytes` if groups can be created.
    ///
    /// # Errors
    /// As [`Peer::start`], and if the group cannot be created now.
    pub async fn start_limited(
        &self,
        contender: Contender,
        dram_bytes: u64,
        clients: usize,
        limit_bytes: u64,
    ) -> Result<(Peer, Vec<Client>)> {
        let Some(group) = self.group(limit_bytes)? else {
            return self.start(contender, dram_bytes, clients).await;
        };
        // A group is not charged for files that another group has brought into the page cache.
        self.forget_files(contender)?;
        let command = self.command(contender, dram_bytes, clients)?;
        Peer::start_in(Some(group), contender.name(), command, clients).await
    }

    /// Creates a control group of `limit_bytes` bytes; `None` if groups cannot be created, which
    /// [`Arena::memory_limit`] reports.
    ///
    /// # Errors
    /// Fails if the group cannot be created now.
    pub fn group(&self, limit_bytes: u64) -> Result<Option<Arc<ControlGroup>>> {
        let Ok(groups) = &self.groups else { return Ok(None) };
        let group = groups.group(limit_bytes);
        let group = group.map_err(|error| BenchError::Peer(format!("a control group: {error}")))?;
        Ok(Some(Arc::new(group)))
    }

    /// Starts DuckDB with a budget and a number of clients in a control group. The database is
    /// opened read-only, so several processes may share it.
    ///
    /// # Errors
    /// As [`Peer::start`].
    pub async fn start_reader(
        &self,
        dram_bytes: u64,
        clients: usize,
        group: Option<Arc<ControlGroup>>,
    ) -> Result<(Peer, Vec<Client>)> {
        let mut command = self.duckdb_command(dram_bytes, clients)?;
        command.arg("READ_ONLY");
        Peer::start_in(group, Contender::DuckDb.name(), command, clients).await
    }

    fn command(&self, contender: Contender, dram_bytes: u64, clients: usize) -> Result<Command> {
        Ok(match contender {
            Contender::DuckDb => self.duckdb_command(dram_bytes, clients)?,
            Contender::Terrace => self.own_command("terrace", dram_bytes, clients),
            Contender::DataFusion => self.own_command("datafusion", dram_bytes, clients),
        })
    }

    /// Evicts from the page cache the files that a contender reads through it.
    pub(crate) fn forget_files(&self, contender: Contender) -> Result<()> {
        let files = match contender {
            // Terrace reads its files with direct I/O, past the page cache.
            Contender::Terrace => return Ok(()),
            Contender::DuckDb => vec![self.database()],
            Contender::DataFusion => listed(&self.files())?,
        };
        for path in files {
            let forgotten = File::open(&path).and_then(|file| drop_pages(&file));
            forgotten.map_err(|source| BenchError::file("read", &path, source))?;
        }
        Ok(())
    }

    fn duckdb_command(&self, dram_bytes: u64, clients: usize) -> Result<Command> {
        let Ok(python) = &self.duckdb else {
            return Err(BenchError::Peer(self.missing().unwrap_or_default()));
        };
        let mut script = python.script(PEER);
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

/// Returns the files of a directory.
fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|source| BenchError::file("read", directory, source))?;
    Ok(entries.iter().map(fs::DirEntry::path).collect())
}

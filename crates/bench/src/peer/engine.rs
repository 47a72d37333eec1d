//! The engines that are compared, and their databases over the same tables.

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
use crate::experiment::Setting;
use crate::machine::Machine;
use crate::peer::control_group::{ControlGroup, MemoryController};
use crate::peer::process::{Client, Peer};
use crate::peer::serve::PEER_COMMAND;
use crate::scratch::Scratch;
use crate::suite::child;
use crate::suite::export::export;
use crate::suite::feed::Generator;
use crate::suite::load::{load, refused};
use crate::tpch::table::Table;

/// DuckDB's side of a peer.
const PEER: &str = concat!(include_str!("../duckdb/values.py"), include_str!("../duckdb/peer.py"));

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

    /// True if rows become text after the time is taken. DuckDB's driver makes Python objects of
    /// them while it runs the query.
    pub fn answers_untimed(self) -> bool {
        self != Contender::DuckDb
    }
}

/// The databases of the contenders, which hold the same TPC-H tables. They go with the value
/// unless the directory was named.
pub struct Arena {
    home: Scratch,
    setting: Setting,
    duckdb: Result<Python>,
    groups: Result<MemoryController, String>,
    encoding: String,
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

    /// The directory of all databases.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The directory of our tables.
    pub fn tables(&self) -> PathBuf {
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

    /// The encoding of our tables, in words.
    pub fn encoding(&self) -> &str {
        &self.encoding
    }

    /// The limit of the engines' memory, as a line of a report: `rule` says which engines run in
    /// a control group, and of how many bytes.
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
        let command = self.command(contender, dram_bytes, clients)?;
        Peer::start(contender.name(), command, clients).await
    }

    /// As [`Arena::start`], in a control group of so many bytes where groups can be made.
    ///
    /// # Errors
    /// As [`Peer::start`], and when the group cannot be made now.
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
        // What another group has in the page cache would be read for nothing.
        self.forget_files(contender)?;
        let command = self.command(contender, dram_bytes, clients)?;
        Peer::start_in(Some(group), contender.name(), command, clients).await
    }

    /// A control group of so many bytes; none where groups cannot be made, which
    /// [`Arena::memory_limit`] says.
    ///
    /// # Errors
    /// One that cannot be made now.
    pub fn group(&self, limit_bytes: u64) -> Result<Option<Arc<ControlGroup>>> {
        let Ok(groups) = &self.groups else { return Ok(None) };
        let group = groups.group(limit_bytes);
        let group = group.map_err(|error| BenchError::Peer(format!("a control group: {error}")))?;
        Ok(Some(Arc::new(group)))
    }

    /// Starts DuckDB with a budget and so many clients in a control group. Several processes may
    /// read the database, which none of them can change.
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

    /// Takes the files that a contender reads through the page cache out of it.
    pub(crate) fn forget_files(&self, contender: Contender) -> Result<()> {
        let files = match contender {
            // Read past the page cache.
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

/// The files of a directory.
fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|source| BenchError::file("read", directory, source))?;
    Ok(entries.iter().map(fs::DirEntry::path).collect())
}

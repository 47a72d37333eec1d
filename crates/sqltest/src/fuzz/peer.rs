//! The peer: the database that Terrace's answers are compared with.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value as Json;

use super::cell::{Answer, Cell};
use super::dialect::Dialect;
use super::load;
use super::plain::Plain;
use super::schema::Table;
use crate::cache;
use crate::error::{CheckError, Result};

const PACKAGE: &str = "duckdb==2.0.0";
/// The directory of the package's virtual environment, below the cache.
const DIRECTORY: &str = "duckdb-2.0.0";

/// Time limit of the peer's answer in seconds; slower queries are not compared.
const SECONDS_MAX: &str = "4";
/// Maximum number of rows of the peer's answer.
const ROWS_MAX: &str = "20000";

/// The peer database.
pub enum Peer {
    /// DuckDB in a child process.
    Duck(Box<Duck>),
    /// DataFusion over tables in memory.
    Plain(Box<Plain>),
}

impl Peer {
    /// Returns the peer's SQL dialect.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Duck(_) => Dialect::Duck,
            Self::Plain(_) => Dialect::Terrace,
        }
    }

    /// Runs statements; the rows in the answer are those of the last statement.
    ///
    /// # Errors
    /// If the peer itself fails; a statement that it refuses is an [`Answer`].
    pub async fn ask(&mut self, statements: &[String]) -> Result<Answer> {
        match self {
            Self::Duck(duck) => tokio::task::block_in_place(|| duck.ask(statements)),
            Self::Plain(plain) => Ok(plain.ask(statements).await),
        }
    }

    /// Creates a table with its rows.
    ///
    /// # Errors
    /// If the peer refuses the table.
    pub async fn load(&mut self, table: &Table, file: &std::path::Path) -> Result<()> {
        match self {
            Self::Duck(_) => {
                let statements = load::statements(table, Dialect::Duck, file);
                let answer = self.ask(&statements).await?;
                answer.map(drop).map_err(|error| CheckError::Peer(format!("a table: {error}")))
            }
            Self::Plain(plain) => plain.load(table),
        }
    }
}

/// DuckDB in a child process, which is killed when this value is dropped.
pub struct Duck {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Duck {
    /// Starts DuckDB.
    ///
    /// # Errors
    /// [`CheckError::Peer`] when it does not start.
    pub fn start() -> Result<Self> {
        let mut command = Command::new(interpreter()?);
        command.args(["-c", include_str!("peer.py"), SECONDS_MAX, ROWS_MAX]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |error: std::io::Error| CheckError::Peer(format!("does not start: {error}"));
        let mut child = command.spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(CheckError::Peer("it has no pipes".to_owned()));
        };
        let mut duck = Self { child, input, output: BufReader::new(output) };
        let answer = duck.ask(&["SELECT 1".to_owned()])?;
        answer.map_err(CheckError::Peer)?;
        Ok(duck)
    }

    /// Runs statements; returns the reply of the process: the rows of the last statement, or an
    /// error.
    ///
    /// # Errors
    /// [`CheckError::Peer`] if the process has ended.
    pub fn reply(&mut self, statements: &[String]) -> Result<Json> {
        let failed = |error: &dyn std::fmt::Display| CheckError::Peer(error.to_string());
        let mut request = serde_json::to_string(statements).map_err(|error| failed(&error))?;
        request.push('\n');
        self.input.write_all(request.as_bytes()).map_err(|error| failed(&error))?;
        self.input.flush().map_err(|error| failed(&error))?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| failed(&error))?;
        if line.is_empty() {
            return Err(CheckError::Peer(format!("it ended at: {}", statements.join("; "))));
        }
        serde_json::from_str(&line).map_err(|error| failed(&error))
    }

    fn ask(&mut self, statements: &[String]) -> Result<Answer> {
        let reply = self.reply(statements)?;
        if let Some(error) = reply["error"].as_str() {
            return Ok(Err(error.to_owned()));
        }
        let rows = reply["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let row = |row: &Json| {
            let cells = row.as_array().map(Vec::as_slice).unwrap_or_default();
            cells.iter().map(Cell::parse).collect::<Result<Vec<_>, _>>()
        };
        let rows = rows.iter().map(row).collect::<Result<Vec<_>, _>>();
        rows.map(Ok).map_err(CheckError::Peer)
    }
}

impl Drop for Duck {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the Python interpreter of a virtual environment with the package; creates the
/// environment if it does not exist.
fn interpreter() -> Result<PathBuf> {
    let parent = cache::directory("python")?;
    let home = parent.join(DIRECTORY);
    let interpreter = home.join("bin").join("python");
    if interpreter.exists() {
        return Ok(interpreter);
    }
    // Installed in a scratch directory and renamed when complete: an interrupted installation is
    // never found.
    let scratch = tempfile::tempdir_in(&parent)
        .map_err(|error| CheckError::file("create", &parent, error))?;
    let partial = scratch.path().join("environment");
    let mut venv = Command::new("python3");
    run(venv.args(["-m", "venv"]).arg(&partial), "python3 -m venv")?;
    let mut pip = Command::new(partial.join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    run(pip.arg(PACKAGE), &format!("pip install {PACKAGE}"))?;
    match std::fs::rename(&partial, &home) {
        Err(error) if !interpreter.exists() => Err(CheckError::file("create", &home, error)),
        // Another process may have created it first.
        _ => Ok(interpreter),
    }
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| CheckError::Peer(format!("{what}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(CheckError::Peer(format!("{what}: {}: {last}", output.status)))
}

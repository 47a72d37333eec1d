//! A PostgreSQL 15 server over a new cluster in a temporary directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::error::{CheckError, Result};

/// Default directory of the programs of PostgreSQL 15; the environment variable below names another
/// one.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
const PROGRAMS_VARIABLE: &str = "TERRACE_POSTGRES_BIN";
/// User that the server runs as if this process runs as root, which the server refuses.
const USER: &str = "postgres";
/// Time within which the server starts.
const START: Duration = Duration::from_secs(20);

/// A server, which ends when this value is dropped.
pub struct Postgres {
    client: Client,
    server: Child,
    directory: TempDir,
}

/// The user and the group of a server.
#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl Postgres {
    /// Starts a server over an empty cluster.
    ///
    /// # Errors
    /// [`CheckError::Peer`] if the programs are missing, or the server does not start.
    pub async fn start() -> Result<Self> {
        let programs = std::env::var_os(PROGRAMS_VARIABLE).map(PathBuf::from);
        let programs = programs.unwrap_or_else(|| PROGRAMS.into());
        if !programs.join("initdb").exists() {
            return Err(failed(format!(
                "PostgreSQL 15 is not in {}; install it, or name its directory by \
                 {PROGRAMS_VARIABLE}",
                programs.display()
            )));
        }
        let directory = tempfile::Builder::new().prefix("terrace-postgres-").tempdir();
        let directory = directory.map_err(|error| failed(format!("no directory: {error}")))?;
        let owner = owner()?;
        hand_over(directory.path(), owner).map_err(|error| failed(error.to_string()))?;
        let cluster = directory.path().join("cluster");
        let mut initdb = command(&programs.join("initdb"), owner);
        initdb.arg("-D").arg(&cluster).args(["-A", "trust", "-U", USER, "-E", "UTF8"]);
        initdb.args(["--locale", "C.UTF-8", "--no-sync"]).stdout(Stdio::null());
        let status = initdb.status().map_err(|error| failed(format!("initdb: {error}")))?;
        if !status.success() {
            return Err(failed(format!("initdb: {status}")));
        }
        let mut server = command(&programs.join("postgres"), owner);
        server.arg("-D").arg(&cluster).arg("-k").arg(directory.path());
        server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "timezone=UTC"]);
        server.args(["-c", "statement_timeout=4000", "-c", "logging_collector=off"]);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn().map_err(|error| failed(format!("postgres: {error}")))?;
        let client = connected(directory.path()).await;
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                stop(server);
                return Err(error);
            }
        };
        Ok(Self { client, server, directory })
    }

    /// Returns the connection that the server was started with.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Opens another connection.
    ///
    /// # Errors
    /// [`CheckError::Peer`] if the server has ended.
    pub async fn connect(&self) -> Result<Client> {
        connected(self.directory.path()).await
    }

    /// Runs a statement without rows.
    ///
    /// # Errors
    /// The server's.
    pub async fn run(&self, statement: &str) -> Result<()> {
        let done = self.client.simple_query(statement).await;
        done.map(drop).map_err(|error| failed(format!("{statement}: {}", message(&error))))
    }

    /// Returns the values of the first column of a query as texts.
    ///
    /// # Errors
    /// The server's.
    pub async fn texts(&self, query: &str) -> Result<Vec<String>> {
        let rows = self.client.simple_query(query).await;
        let rows = rows.map_err(|error| failed(format!("{query}: {}", message(&error))))?;
        let text = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        Ok(rows.iter().filter_map(text).collect())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The server is killed before its directory is removed.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn stop(mut server: Child) {
    // It may have ended already.
    let _ = server.kill();
    let _ = server.wait();
}

fn failed(what: String) -> CheckError {
    CheckError::Peer(what)
}

/// Returns the message of the server, or that of the client.
#[must_use]
pub fn message(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// Returns the user that the server runs as if this process runs as root; `None` for the user of
/// this process.
fn owner() -> Result<Option<Owner>> {
    let process = fs::metadata("/proc/self").map_err(|error| failed(error.to_string()))?;
    if process.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(|error| failed(error.to_string()))?;
    let entry = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = entry.into_iter().find(|entry| entry.first() == Some(&USER));
    let number = |at: usize| entry.as_ref()?.get(at)?.parse().ok();
    match (number(2), number(3)) {
        (Some(user), Some(group)) => Ok(Some(Owner { user, group })),
        _ => Err(failed(format!("root cannot run PostgreSQL, and there is no user {USER}"))),
    }
}

fn hand_over(directory: &Path, owner: Option<Owner>) -> std::io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    match owner {
        Some(Owner { user, group }) => chown(directory, Some(user), Some(group)),
        None => Ok(()),
    }
}

fn command(program: &Path, owner: Option<Owner>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).current_dir("/");
    if let Some(Owner { user, group }) = owner {
        command.uid(user).gid(group);
    }
    command
}

async fn connected(socket: &Path) -> Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(socket).user(USER).dbname(USER);
    let attempts = async {
        loop {
            match config.connect(NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let client = tokio::time::timeout(START, attempts).await;
    client.map_err(|_| failed(format!("PostgreSQL does not start within {START:?}")))
}

//! PostgreSQL with a temporary database cluster, as an engine to compare with.
//!
//! PostgreSQL does not run as root: if this program does, the server runs as the user `postgres`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backend::{Address, Backend, Budget, Tail};
use super::psql;
use crate::error::{BenchError, Result};
use crate::measure::Scratch;
use crate::peer::control_group::ControlGroup;
use crate::peer::process::peer_command;
use crate::suite::child::{Kept, output, start};
use crate::suite::table::Generated;
use crate::tpch::table::Table;

/// Directory with a subdirectory for each installed version on Debian and others.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Superuser of the cluster, and the system's user that runs it instead of root.
const USER: &str = "postgres";

/// Timeout for the start of the server.
const START: Duration = Duration::from_secs(60);

/// A quarter of the budget is for shared buffers, as PostgreSQL's manual advises; the clients share
/// the rest. A query has several sorts and hash tables, each of which may take twice `work_mem`, so
/// `work_mem` is an eighth (1 / `WORK`) of a client's share.
const SHARED: u64 = 4;
const WORK: u64 = 8;

/// Keys of the tables, as in the specification.
const KEYS: &str = "ALTER TABLE region ADD PRIMARY KEY (r_regionkey);
ALTER TABLE nation ADD PRIMARY KEY (n_nationkey);
ALTER TABLE supplier ADD PRIMARY KEY (s_suppkey);
ALTER TABLE customer ADD PRIMARY KEY (c_custkey);
ALTER TABLE part ADD PRIMARY KEY (p_partkey);
ALTER TABLE partsupp ADD PRIMARY KEY (ps_partkey, ps_suppkey);
ALTER TABLE orders ADD PRIMARY KEY (o_orderkey);
ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber);
VACUUM ANALYZE;";

/// A database cluster in a temporary directory, and the programs of PostgreSQL that serve it.
pub(super) struct Postgres {
    programs: PathBuf,
    version: String,
    /// User and group that run the server; `None` if this program is not root.
    owner: Option<(u32, u32)>,
    // Removed on drop.
    home: Scratch,
}

impl Postgres {
    /// Creates a cluster below the system's temporary directory.
    ///
    /// # Errors
    /// The reason as text, if PostgreSQL is missing or no user may run it.
    pub(super) async fn create() -> Result<Postgres> {
        let programs = programs().ok_or_else(|| {
            BenchError::Peer(format!("there is no initdb in {VERSIONS}/*/bin or in PATH"))
        })?;
        let home = Scratch::of(None, "postgres")?;
        let owner = owner()?;
        if let Some((user, group)) = owner {
            let owned = chown(home.path(), Some(user), Some(group));
            owned.map_err(|source| BenchError::file("own", home.path(), source))?;
        }
        let mut postgres = Postgres { programs, version: String::new(), owner, home };
        let mut initdb = postgres.program("initdb");
        initdb.args(["-A", "trust", "-E", "UTF8", "--locale=C", "-U", USER, "-D"]);
        initdb.arg(postgres.data());
        output(initdb, Vec::new(), "initdb").await?;
        let mut version = postgres.program("postgres");
        version.arg("--version");
        let version = output(version, Vec::new(), "postgres").await?;
        postgres.version = String::from_utf8_lossy(&version).trim().to_owned();
        Ok(postgres)
    }

    /// Returns the version, as the server prints it.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Creates a command for a program of PostgreSQL, which runs as the owner of the cluster.
    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = match self.owner {
            None => Command::new(path),
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &user.to_string(), "--regid", &group.to_string()]);
                command.arg("--clear-groups").arg(path);
                command
            }
        };
        // The current directory may be inaccessible to that user.
        command.current_dir("/");
        command
    }

    /// Starts the server with a budget and waits until it accepts clients.
    ///
    /// # Errors
    /// [`BenchError::Peer`] with the last line of its log if it does not.
    pub(super) async fn start(
        &self,
        budget: Budget,
        group: Option<Arc<ControlGroup>>,
    ) -> Result<Backend> {
        let address = Address {
            host: "127.0.0.1".to_owned(),
            port: free_port()?,
            user: USER,
            database: USER,
        };
        let mut command = peer_command(group.as_deref(), self.server(budget, address.port));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Kept(start(&mut command)?);
        let errors = Tail::of(process.0.stderr.take());
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "-m", "immediate", "-D"]).arg(self.data());
        let stop = Some(stop);
        let mut backend = Backend { address, flight: None, process, errors, stop, _group: group };
        let began = Instant::now();
        while psql::run(&backend.address, "SELECT 1;").await.is_err() {
            if !backend.is_running() || began.elapsed() > START {
                let last = backend.errors.last().unwrap_or_default();
                return Err(BenchError::Peer(format!("PostgreSQL does not start: {last}")));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(backend)
    }

    fn server(&self, budget: Budget, port: u16) -> Command {
        let Budget { dram_bytes, clients, .. } = budget;
        let shared = (dram_bytes / SHARED) >> 10;
        let clients = u64::try_from(clients).unwrap_or(1).max(1);
        // PostgreSQL's minimum is 64 KiB.
        let work = (((dram_bytes - dram_bytes / SHARED) / clients / WORK) >> 10).max(64);
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &port.to_string(), "-k"]);
        command.arg(self.home.path());
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("max_connections={}", clients + 20),
            format!("shared_buffers={}kB", shared.max(128)),
            format!("work_mem={work}kB"),
            // JIT is off: with it each process would take further memory to compile its queries.
            "jit=off".to_owned(),
            format!("effective_cache_size={}kB", (dram_bytes >> 10).max(1024)),
        ] {
            command.args(["-c", &setting]);
        }
        command
    }

    /// Copies the TPC-H tables from another server, with their keys.
    ///
    /// # Errors
    /// Fails if a table cannot be copied.
    pub(super) async fn load(
        &self,
        from: &Address,
        to: &Address,
        observe: &mut dyn FnMut(&str),
    ) -> Result<()> {
        for table in Table::ALL {
            observe(&format!("loading {table} into PostgreSQL"));
            psql::run(to, &format!("{};", table.definition())).await?;
            copy(from, to, table.name()).await?;
        }
        observe("making keys in PostgreSQL");
        psql::run(to, KEYS).await.map(|_| ())
    }
}

/// Copies a table from one server to another, in binary.
async fn copy(from: &Address, to: &Address, table: &str) -> Result<()> {
    let words = |address: &Address, way: &str| {
        let text = format!("COPY {table} {way} (FORMAT binary)");
        let mut words = vec!["psql".to_owned(), "-X".into(), "-q".into()];
        words.extend(address.options());
        words.extend(["-d".into(), address.database.into(), "-c".into(), text]);
        words
    };
    let (out, into) = (words(from, "TO STDOUT"), words(to, "FROM STDIN"));
    let mut pipe = Command::new("bash");
    pipe.args(["-c", r#"set -o pipefail; n=$1; shift; "${@:1:n}" | "${@:n+1}""#, "copy"]);
    pipe.arg(out.len().to_string()).args(out).args(into);
    output(pipe, Vec::new(), &format!("copying {table}")).await.map(|_| ())
}

/// Returns the directory of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("initdb").exists().then_some((version, programs))
    });
    let newest = versions.max().map(|(_, programs)| programs);
    newest.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|directory| directory.join("initdb").exists())
    })
}

/// Returns the user and group that run the server; `None` if this program may run it itself.
fn owner() -> Result<Option<(u32, u32)>> {
    let own = Path::new("/proc/self");
    let user = fs::metadata(own).map_err(|source| BenchError::file("read", own, source))?.uid();
    if user != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix(USER)?.strip_prefix(':')?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    let missing = "PostgreSQL does not run as root, and there is no user postgres to run it";
    found.map(Some).ok_or_else(|| BenchError::Peer(missing.to_owned()))
}

/// Returns a TCP port that is currently free.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let address = listener.map_err(|error| BenchError::Peer(format!("no free port: {error}")))?;
    Ok(address.port())
}

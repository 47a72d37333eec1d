//! Cost of the protocol: empty queries by pgbench, and rows in binary by psql's COPY and by Arrow
//! Flight SQL.
//!
//! Both servers run all the time. In each round a measurement is taken on one server and then on
//! the other; the first one changes from round to round.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::StreamExt as _;
use serde::Serialize;
use terrace_sys::size::to_u64;
use tonic::transport::Endpoint;

use super::backend::{Address, Backend};
use super::config::Config;
use super::load::Engine;
use super::psql;
use crate::error::{BenchError, Result};
use crate::measure::{Scratch, median, percentile};
use crate::suite::child::{Kept, output, start};

/// Modes of pgbench, which select the protocol.
const MODES: [&str; 3] = ["prepared", "extended", "simple"];

/// Numbers of connections of pgbench.
const CONNECTIONS: [usize; 2] = [1, 32];

/// Table whose rows are fetched.
const TABLE: &str = "wire_rows";

/// Names of the cases that fetch rows: by COPY, and by Flight SQL if a server supports it.
pub(super) const ROWS: &str = "rows";
pub(super) const FLIGHT: &str = "rows by Flight SQL";

/// Query whose rows are fetched.
const FETCH: &str = "COPY (SELECT k, s, f FROM wire_rows) TO STDOUT (FORMAT binary)";

/// A measurement on one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WireRow {
    pub(super) engine: Engine,
    /// The mode of pgbench, [`ROWS`] or [`FLIGHT`].
    pub(super) case: &'static str,
    pub(super) connections: usize,
    /// Queries, or rows, per second: the median of the rounds.
    pub(super) rate: Option<f64>,
    /// Latencies of all rounds together; `None` for rows.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) error: Option<String>,
}

/// Measurements of pgbench in one run.
struct Run {
    rate: f64,
    latencies_us: Vec<f64>,
}

/// Rounds of one case on one server.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    latencies_us: Vec<f64>,
    error: Option<String>,
}

impl Rounds {
    fn add(&mut self, run: Result<Run>) {
        match run {
            Ok(run) => {
                self.rates.push(run.rate);
                self.latencies_us.extend(run.latencies_us);
            }
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn row(&self, engine: Engine, case: &'static str, connections: usize) -> WireRow {
        WireRow {
            engine,
            case,
            connections,
            rate: median(&self.rates).filter(|_| self.error.is_none()),
            p50_us: percentile(&self.latencies_us, 50),
            p99_us: percentile(&self.latencies_us, 99),
            error: self.error.clone(),
        }
    }
}

/// Measures all cases on all servers.
///
/// # Errors
/// Fails if pgbench is missing, the rows cannot be created, or the servers do not send the same
/// number of bytes.
pub(super) async fn run(
    servers: &[(Engine, Backend)],
    config: &Config,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<WireRow>> {
    let scratch = Scratch::of(None, "pgbench")?;
    let script = scratch.path().join("one.sql");
    fs::write(&script, "SELECT 1;\n")
        .map_err(|source| BenchError::file("write", &script, source))?;
    let mut rows = Vec::new();
    for mode in MODES {
        for connections in CONNECTIONS {
            let case = Case { mode, connections, seconds: config.options.wire_seconds };
            observe(&format!("SELECT 1, {mode}, {connections} connections"));
            let mut rounds: Vec<Rounds> = servers.iter().map(|_| Rounds::default()).collect();
            for round in 0..config.rounds {
                for turn in 0..servers.len() {
                    let at = (round + turn) % servers.len();
                    rounds[at].add(pgbench(&servers[at].1.address, &case, &scratch).await);
                }
            }
            let rounds = servers.iter().zip(&rounds);
            rows.extend(rounds.map(|((engine, _), of)| of.row(*engine, mode, connections)));
        }
    }
    rows.extend(fetch(servers, config, observe).await?);
    Ok(rows)
}

/// Parameters of a run of pgbench.
struct Case {
    mode: &'static str,
    connections: usize,
    seconds: u64,
}

async fn pgbench(address: &Address, case: &Case, scratch: &Scratch) -> Result<Run> {
    let log = Scratch::below(scratch.path(), "log")?;
    let mut command = Command::new("pgbench");
    command.args(["-n", "-M", case.mode, "-f"]).arg(scratch.path().join("one.sql"));
    command.args(["-c", &case.connections.to_string(), "-T", &case.seconds.to_string()]);
    command.args(["-j", if case.connections > 1 { "2" } else { "1" }]);
    command.arg("-l").arg("--log-prefix").arg(log.path().join("log"));
    command.args(address.options()).arg(address.database);
    let text = String::from_utf8_lossy(&output(command, Vec::new(), "pgbench").await?).into_owned();
    let failed = text.lines().any(|line| {
        line.strip_prefix("number of failed transactions: ")
            .is_some_and(|rest| !rest.starts_with("0 "))
    });
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    match rate.and_then(|rate| rate.parse().ok()).filter(|_| !failed) {
        Some(rate) => Ok(Run { rate, latencies_us: latencies(&log)? }),
        None => Err(BenchError::Peer(format!("pgbench: {text}"))),
    }
}

/// Returns the latencies of all transactions: the third word of each line of a log.
fn latencies(log: &Scratch) -> Result<Vec<f64>> {
    let failed = |source| BenchError::file("read", log.path(), source);
    let mut latencies = Vec::new();
    for entry in fs::read_dir(log.path()).map_err(failed)? {
        let text = fs::read_to_string(entry.map_err(failed)?.path()).map_err(failed)?;
        let words = text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok());
        latencies.extend(words);
    }
    Ok(latencies)
}

async fn fetch(
    servers: &[(Engine, Backend)],
    config: &Config,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<WireRow>> {
    let count = config.options.wire_rows;
    let mut lengths = Vec::new();
    for (engine, server) in servers {
        observe(&format!("making {count} rows in {}", engine.name()));
        let make = format!(
            "CREATE TABLE {TABLE} AS SELECT i AS k, 'value ' || CAST(i AS VARCHAR) AS s, \
             CAST(i AS DOUBLE PRECISION) / 8 AS f FROM generate_series(CAST(1 AS BIGINT), \
             CAST({count} AS BIGINT)) AS t(i);"
        );
        psql::run(&server.address, &make).await?;
        let copied = copied(&server.address)?;
        lengths.push(copied);
    }
    if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
        let text = format!("the servers send other rows: bytes and checksums {lengths:?}");
        return Err(BenchError::Engine(text));
    }
    let mut rounds: Vec<Rounds> = servers.iter().map(|_| Rounds::default()).collect();
    let mut flights: Vec<Rounds> = servers.iter().map(|_| Rounds::default()).collect();
    for round in 0..config.rounds {
        for turn in 0..servers.len() {
            let at = (round + turn) % servers.len();
            observe(&format!("fetching {count} rows from {}", servers[at].0.name()));
            let mut command = copy(&servers[at].1.address);
            command.stdout(Stdio::null());
            let began = Instant::now();
            let ran = output_of(&mut command);
            let seconds = began.elapsed().as_secs_f64();
            let rate = as_f64(count) / seconds;
            rounds[at].add(ran.map(|()| Run { rate, latencies_us: Vec::new() }));
            if let Some(flight) = servers[at].1.flight {
                flights[at].add(fetch_by_flight(flight, count).await);
            }
        }
    }
    let rows = servers.iter().zip(&rounds).map(|((engine, _), of)| of.row(*engine, ROWS, 1));
    let flights = servers.iter().zip(&flights).filter(|((_, server), _)| server.flight.is_some());
    Ok(rows.chain(flights.map(|((engine, _), of)| of.row(*engine, FLIGHT, 1))).collect())
}

/// Fetches the rows by Flight SQL as batches of Arrow.
async fn fetch_by_flight(address: SocketAddr, count: u64) -> Result<Run> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Peer(format!("Flight SQL: {error}"));
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|error| failed(&error))?;
    let began = Instant::now();
    let channel = endpoint.connect().await.map_err(|error| failed(&error))?;
    let mut client = FlightSqlServiceClient::new(channel);
    let text = format!("SELECT k, s, f FROM {TABLE}");
    let info = client.execute(text, None).await.map_err(|error| failed(&error))?;
    let ticket = info.endpoint.into_iter().next().and_then(|endpoint| endpoint.ticket);
    let ticket = ticket.ok_or_else(|| failed(&"no ticket"))?;
    let mut batches = client.do_get(ticket).await.map_err(|error| failed(&error))?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += to_u64(batch.map_err(|error| failed(&error))?.num_rows());
    }
    let rate = as_f64(count) / began.elapsed().as_secs_f64();
    match rows == count {
        true => Ok(Run { rate, latencies_us: Vec::new() }),
        false => Err(failed(&format_args!("{rows} rows of {count}"))),
    }
}

/// Creates a command for psql that copies the rows to its standard output.
fn copy(address: &Address) -> Command {
    let mut command = Command::new("psql");
    command.args(["-X", "-q"]).args(address.options()).args(["-d", address.database]);
    command.args(["-c", FETCH]).stdin(Stdio::null());
    command
}

fn output_of(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|source| BenchError::file("start", command.get_program().as_ref(), source))?;
    let failed = || BenchError::Peer(format!("psql ended with {status}"));
    status.success().then_some(()).ok_or_else(failed)
}

/// Returns the number of bytes of the rows, and the sum of all bytes, which does not depend on the
/// order of rows.
fn copied(address: &Address) -> Result<(u64, u64)> {
    let mut command = copy(address);
    let mut process = Kept(start(command.stdout(Stdio::piped()))?);
    let mut sum = Checksum::default();
    if let Some(mut output) = process.0.stdout.take() {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = output.read(&mut buffer);
            let read = read.map_err(|error| BenchError::Peer(format!("psql: {error}")))?;
            if read == 0 {
                break;
            }
            sum.write_all(&buffer[..read])
                .map_err(|error| BenchError::Peer(format!("psql: {error}")))?;
        }
    }
    let status = process.0.wait().map_err(|error| BenchError::Peer(format!("psql: {error}")))?;
    match status.success() {
        true => Ok((sum.bytes, sum.sum)),
        false => Err(BenchError::Peer(format!("psql ended with {status}"))),
    }
}

/// Number and sum of bytes.
#[derive(Default)]
struct Checksum {
    bytes: u64,
    sum: u64,
}

impl Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.sum += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Converts a count of rows for a division.
fn as_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

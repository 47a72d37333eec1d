//! Servers of PostgreSQL's protocol, each in a separate process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use terrace_sys::sync::lock;
use terrace_tier::TierSpec;

use crate::error::{BenchError, Result};
use crate::peer::control_group::ControlGroup;
use crate::peer::process::peer_command;
use crate::suite::child::{Kept, start};

/// Number of lines of standard error that are kept of a process.
const TAIL_LINES: usize = 20;

/// Address that clients connect to.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: &'static str,
    pub(super) database: &'static str,
}

impl Address {
    /// Returns the options with which psql and pgbench connect to the address. The database is not
    /// among them: it is a positional argument.
    pub(super) fn options(&self) -> [String; 6] {
        let (host, port, user) = (self.host.clone(), self.port.to_string(), self.user.to_owned());
        ["-h".into(), host, "-p".into(), port, "-U".into(), user]
    }
}

/// Last lines that a process writes to a pipe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<String>>>);

impl Tail {
    /// Starts a thread that reads `pipe` to its end.
    pub(super) fn of(pipe: Option<impl Read + Send + 'static>) -> Tail {
        let tail = Tail::default();
        let lines = Arc::clone(&tail.0);
        if let Some(pipe) = pipe {
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(std::io::Result::ok) {
                    let mut lines = lock(&lines);
                    if lines.len() == TAIL_LINES {
                        lines.remove(0);
                    }
                    lines.push(line);
                }
            });
        }
        tail
    }

    /// Returns the last line that is not blank.
    pub(super) fn last(&self) -> Option<String> {
        let lines = lock(&self.0);
        lines.iter().rev().find(|line| !line.trim().is_empty()).cloned()
    }
}

/// A running server, which is stopped on drop.
pub(crate) struct Backend {
    pub(crate) address: Address,
    /// Address of Arrow Flight SQL, if the server supports it.
    pub(super) flight: Option<SocketAddr>,
    pub(super) process: Kept,
    pub(super) errors: Tail,
    /// Command that stops the server, before it is killed.
    pub(super) stop: Option<Command>,
    // Removed after the process has ended: fields are dropped in order.
    pub(super) _group: Option<Arc<ControlGroup>>,
}

impl Backend {
    /// Returns true while the server's process runs.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.process.0.try_wait(), Ok(None))
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some(stop) = &mut self.stop {
            // A process that this does not stop is killed.
            let _ = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        self.process.end();
    }
}

/// Budget and limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) dram_bytes: u64,
    pub(crate) threads: usize,
    pub(crate) clients: usize,
}

/// Starts `terrace serve` over tables in a directory, or without tables, with `tiers` below DRAM,
/// and waits until it listens.
///
/// # Errors
/// [`BenchError::File`] if it does not start, [`BenchError::Peer`] with its last message if it ends
/// before it listens.
pub(crate) fn serve(
    program: &Path,
    data: Option<&Path>,
    tiers: &[TierSpec],
    budget: Budget,
    group: Option<Arc<ControlGroup>>,
) -> Result<Backend> {
    let mut command = Command::new(program);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--flight", "127.0.0.1:0"])
        .args(["--dram", &budget.dram_bytes.to_string()])
        .args(["--threads", &budget.threads.to_string()])
        // The experiment opens further connections in addition to those of the clients.
        .args(["--connections", &(budget.clients + 8).to_string()]);
    for tier in tiers {
        command.arg("--tier").arg(tier.to_string());
    }
    if let Some(data) = data {
        command.arg("--data").arg(data);
    }
    let mut command = peer_command(group.as_deref(), command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Kept(start(&mut command)?);
    let errors = Tail::of(process.0.stderr.take());
    let (mut said, mut flight) = (String::new(), String::new());
    if let Some(output) = process.0.stdout.take() {
        let mut output = BufReader::new(output);
        // An empty line without a line end means that the process has ended.
        let _ = output.read_line(&mut said);
        let _ = output.read_line(&mut flight);
        // Further lines are read too, so that the process does not block on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    }
    let port = said.split_once("127.0.0.1:").map(|(_, rest)| rest);
    let digits = port.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let Some(port) = digits.and_then(|digits| digits.parse().ok()) else {
        let last = errors.last().unwrap_or(said);
        return Err(BenchError::Peer(format!("terrace serve does not listen: {last}")));
    };
    let flight = flight.split_once("grpc://").and_then(|(_, rest)| rest.split_once(": "));
    let flight = flight.and_then(|(address, _)| address.parse().ok());
    let host = "127.0.0.1".to_owned();
    let address = Address { host, port, user: "bench", database: "main" };
    Ok(Backend { address, flight, process, errors, stop: None, _group: group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_says_why() {
        let refused = serve(
            Path::new("/bin/false"),
            None,
            &[],
            Budget { dram_bytes: 1 << 20, threads: 1, clients: 1 },
            None,
        );
        let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("does not listen"), "{message}");
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        let text: String = (0..50).map(|line| format!("line {line}\n")).collect();
        let tail = Tail::of(Some(std::io::Cursor::new(text + "\n")));
        for _ in 0..500 {
            if tail.last().as_deref() == Some("line 49") {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{:?}", tail.last());
    }
}

//! Parent's side of a peer: starts it, sends queries, and samples its memory.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_sys::sync::lock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::{BenchError, Result};
use crate::peer::control_group::ControlGroup;
use crate::peer::{Reply, Request};
use crate::suite::child::{Kept, start};

/// Timeout of a query. DataFusion's exchanges may wait for each other forever when they spill
/// (apache/datafusion#24883).
const PATIENCE: Duration = Duration::from_secs(180);

/// A running peer, whose process is ended on drop.
pub struct Peer {
    name: &'static str,
    process: Kept,
    /// The process runs as long as its input is open. It is held here so that the process, whose
    /// memory is sampled, outlives the clients.
    _input: Arc<Mutex<ChildStdin>>,
    // Removed after the process has ended: fields are dropped in order.
    _group: Option<Arc<ControlGroup>>,
}

/// One client of a peer.
pub struct Client {
    name: &'static str,
    number: usize,
    input: Arc<Mutex<ChildStdin>>,
    replies: UnboundedReceiver<Reply>,
    /// True if a query was not answered in time. The next reply would be the late one, so no
    /// further query is sent.
    is_stuck: bool,
}

impl Peer {
    /// Starts a peer with a number of clients and waits until it is ready for them.
    ///
    /// # Errors
    /// [`BenchError::File`] if it does not start, [`BenchError::Peer`] if it ends before it is
    /// ready.
    pub async fn start(
        name: &'static str,
        command: Command,
        clients: usize,
    ) -> Result<(Peer, Vec<Client>)> {
        Peer::start_in(None, name, command, clients).await
    }

    /// As [`Peer::start`], in a control group that may contain other processes.
    ///
    /// # Errors
    /// As [`Peer::start`].
    pub async fn start_in(
        group: Option<Arc<ControlGroup>>,
        name: &'static str,
        command: Command,
        clients: usize,
    ) -> Result<(Peer, Vec<Client>)> {
        let mut command = peer_command(group.as_deref(), command);
        let mut process = Kept(start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?);
        let pipes = process.0.stdin.take().zip(process.0.stdout.take());
        let (input, output) =
            pipes.ok_or_else(|| BenchError::Peer(format!("{name} has no pipes")))?;
        let input = Arc::new(Mutex::new(input));
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..clients).map(|_| unbounded_channel()).unzip();
        std::thread::spawn(move || deal(BufReader::new(output), &senders));
        let mut clients = Vec::new();
        for (number, replies) in receivers.into_iter().enumerate() {
            let mut client =
                Client { name, number, input: Arc::clone(&input), replies, is_stuck: false };
            client.reply().await?;
            clients.push(client);
        }
        Ok((Peer { name, process, _input: input, _group: group }, clients))
    }

    /// Kills the process, even during a query.
    pub fn end(&mut self) {
        self.process.end();
    }

    /// Returns the peak of its resident memory in bytes.
    ///
    /// # Errors
    /// [`BenchError::Peer`] if it has ended.
    pub fn peak_resident_bytes(&self) -> Result<u64> {
        let peak = peak_resident_bytes(self.process.0.id());
        peak.ok_or_else(|| BenchError::Peer(format!("{} ended", self.name)))
    }
}

/// Returns `command`, or a command that runs it in `group` if one is given.
pub(crate) fn peer_command(group: Option<&ControlGroup>, command: Command) -> Command {
    match group {
        Some(group) => group.inside(&command),
        None => command,
    }
}

/// Returns the peak of a process's resident memory in bytes; `None` if it has ended.
pub(crate) fn peak_resident_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

impl Client {
    /// Runs a query. The reply to a failed query has an error, and so has that to a query which
    /// takes more than three minutes; after a timeout all further replies of the client have
    /// errors.
    ///
    /// # Errors
    /// [`BenchError::Peer`] if the peer is gone.
    pub async fn ask(&mut self, sql: &str) -> Result<Reply> {
        self.ask_within(sql, false, PATIENCE).await
    }

    /// As [`Client::ask`], with the rows in the reply.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn ask_for_answer(&mut self, sql: &str) -> Result<Reply> {
        self.ask_within(sql, true, PATIENCE).await
    }

    /// As [`Client::ask`], or as [`Client::ask_for_answer`] if `answer` is set, with another
    /// timeout.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn ask_within(
        &mut self,
        sql: &str,
        answer: bool,
        patience: Duration,
    ) -> Result<Reply> {
        if self.is_stuck {
            let error = Some("not asked: a query before has no answer yet".to_string());
            return Ok(Reply { client: self.number, error, ..Reply::default() });
        }
        let request = Request { client: self.number, sql: sql.to_string(), answer };
        let gone = |error: &dyn std::fmt::Display| {
            BenchError::Peer(format!("{} cannot be asked: {error}", self.name))
        };
        let mut line = serde_json::to_string(&request).map_err(|error| gone(&error))?;
        line.push('\n');
        {
            let mut input = lock(&self.input);
            let written = input.write_all(line.as_bytes()).and_then(|()| input.flush());
            written.map_err(|error| gone(&error))?;
        }
        match tokio::time::timeout(patience, self.reply()).await {
            Ok(reply) => reply,
            Err(_) => {
                self.is_stuck = true;
                let seconds = patience.as_secs_f64();
                let error = format!("no answer within {seconds} s");
                Ok(Reply { client: self.number, seconds, error: Some(error), ..Reply::default() })
            }
        }
    }

    /// Returns true after a timeout, after which the client answers no further queries.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    async fn reply(&mut self) -> Result<Reply> {
        let ended = || BenchError::Peer(format!("{} ended without a reply", self.name));
        self.replies.recv().await.ok_or_else(ended)
    }
}

/// Reads replies from `output` and passes each to its client, until the peer ends or writes an
/// invalid reply.
fn deal(output: impl BufRead, senders: &[UnboundedSender<Reply>]) {
    for line in output.lines().map_while(std::io::Result::ok) {
        let Ok(reply) = serde_json::from_str::<Reply>(&line) else { return };
        if let Some(sender) = senders.get(reply.client) {
            // A client that is gone needs no reply.
            let _ = sender.send(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const TWO: &str = r#"
        reply() { echo "{\"client\":$1,\"seconds\":0.5,\"rows\":$2,\"error\":null}"; }
        reply 1 0; reply 0 0; read line; read line; reply 1 11; reply 0 10; read line; exit 0"#;

    #[tokio::test]
    async fn replies_find_their_clients() {
        let (peer, clients) = Peer::start("it", shell(TWO), 2).await.expect("started");
        let mut clients = clients.into_iter();
        let (mut first, mut second) = (clients.next().expect("0"), clients.next().expect("1"));
        let (zero, one) = tokio::join!(first.ask("SELECT 0"), second.ask("SELECT 1"));
        assert_eq!((zero.expect("0").rows, one.expect("1").rows), (10, 11));
        assert!(peer.peak_resident_bytes().expect("running") > 0);
        let gone = first.ask("SELECT 2").await.expect_err("ended").to_string();
        assert!(gone.contains("it "), "{gone}");
    }

    #[tokio::test]
    async fn one_that_does_not_answer_is_asked_no_more() {
        let script =
            r#"echo '{"client":0,"seconds":0,"rows":0,"error":null}'; read line; sleep 60"#;
        let (_peer, mut clients) = Peer::start("it", shell(script), 1).await.expect("started");
        let soon = Duration::from_millis(50);
        let reply = clients[0].ask_within("SELECT 0", false, soon).await.expect("a reply");
        assert_eq!(reply.error.as_deref(), Some("no answer within 0.05 s"));
        assert!(clients[0].is_stuck());
        let next = clients[0].ask("SELECT 1").await.expect("a reply");
        assert!(next.error.is_some_and(|error| error.contains("not asked")));
    }

    #[tokio::test]
    async fn one_that_ends_before_it_is_ready_is_named() {
        let ended = Peer::start("the peer", shell("exit 1"), 1).await.err().expect("refused");
        assert!(ended.to_string().contains("the peer ended"), "{ended}");
    }
}

//! A client: a session of psql that runs one query after another.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout_at;

use super::backend::{Address, Tail};
use crate::error::{BenchError, Result};
use crate::peer::Reply;
use crate::suite::answer::{Answer, NULL};
use crate::suite::child::{Kept, output, start};

/// Line after the rows of a query; psql adds the error and its class.
const END: &str = "@end";

/// Separator of values, which no value contains.
const SEPARATOR: char = '\u{1f}';

/// Time to wait for the last messages of a process after it has closed its output.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A session of psql.
pub(crate) struct Psql {
    // Killed on drop.
    _process: Kept,
    input: ChildStdin,
    lines: UnboundedReceiver<String>,
    errors: Tail,
}

/// Creates a command for psql with options for use by programs.
fn psql(address: &Address) -> Command {
    // Line-buffered, so that the end of an answer is seen at once.
    let mut command = Command::new("stdbuf");
    command.args(["-oL", "psql", "-X", "-q", "-A", "-t", "-P", &format!("null={NULL}")]);
    command.args(["-F", &SEPARATOR.to_string()]).args(address.options());
    command.arg(address.database).env("PGCONNECT_TIMEOUT", "60");
    command
}

/// Returns the version of psql.
///
/// # Errors
/// Fails if psql is missing.
pub(super) async fn version() -> Result<String> {
    let mut command = Command::new("psql");
    command.arg("--version");
    let text = output(command, Vec::new(), "psql").await?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// Runs statements to their end.
///
/// # Errors
/// Fails with the message of the first statement that fails.
pub(super) async fn run(address: &Address, statements: &str) -> Result<String> {
    let mut command = psql(address);
    command.args(["-v", "ON_ERROR_STOP=1", "-f", "-"]);
    let text = output(command, statements.as_bytes().to_vec(), "psql").await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl Psql {
    /// Starts psql. A connection error is reported by the first query.
    ///
    /// # Errors
    /// [`BenchError::File`] if psql does not start.
    pub(crate) fn start(address: &Address) -> Result<Psql> {
        let mut command = psql(address);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Kept(start(&mut command)?);
        let pipes = process.0.stdin.take().zip(process.0.stdout.take());
        let (input, output) =
            pipes.ok_or_else(|| BenchError::Peer("psql has no pipes".to_owned()))?;
        let errors = Tail::of(process.0.stderr.take());
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
                // The session was dropped.
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Psql { _process: process, input, lines, errors })
    }

    /// Runs a query, from its text to its last row. If it fails, loses its connection, or has no
    /// answer at the deadline, the reply has an error.
    pub(crate) async fn ask(&mut self, sql: &str, deadline: Instant) -> Reply {
        let began = Instant::now();
        let failed = |error: String| Reply {
            seconds: began.elapsed().as_secs_f64(),
            error: Some(error),
            ..Reply::default()
        };
        let text = format!("{sql};\n\\echo {END} :ERROR :LAST_ERROR_MESSAGE\n");
        if self.input.write_all(text.as_bytes()).and_then(|()| self.input.flush()).is_err() {
            return failed(self.lost().await);
        }
        let mut answer = Answer::default();
        loop {
            let line = match timeout_at(deadline.into(), self.lines.recv()).await {
                Ok(Some(line)) => line,
                Ok(None) => return failed(self.lost().await),
                Err(_) => return failed("not answered in the time there was".to_owned()),
            };
            let Some(end) = line.strip_prefix(END) else {
                answer.rows.push(line.split(SEPARATOR).map(str::to_owned).collect());
                continue;
            };
            return match end.trim().strip_prefix("true") {
                Some(error) => failed(error.trim().to_owned()),
                None => {
                    let (seconds, rows) = (began.elapsed().as_secs_f64(), answer.rows.len());
                    Reply { seconds, rows, answer: Some(answer), ..Reply::default() }
                }
            };
        }
    }

    /// Returns an error message for a lost connection, with the last line that psql has written to
    /// standard error.
    async fn lost(&self) -> String {
        tokio::time::sleep(LAST_WORDS).await;
        let last = self.errors.last();
        format!("the connection is lost: {}", last.as_deref().unwrap_or("psql says nothing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_server_is_an_error_of_the_query() -> Result<()> {
        if version().await.is_err() {
            terrace_testkit::needs::skip("psql is not there");
            return Ok(());
        }
        let address =
            Address { host: "127.0.0.1".into(), port: 1, user: "bench", database: "main" };
        let mut client = Psql::start(&address)?;
        let reply = client.ask("SELECT 1", Instant::now() + Duration::from_secs(30)).await;
        let error = reply.error.unwrap_or_default();
        assert!(error.contains("connection"), "{error}");
        assert!(run(&address, "SELECT 1;").await.is_err());
        Ok(())
    }
}

//! Child processes that do a piece of work for this one and end with it.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use tokio::task::spawn_blocking;

use crate::error::{BenchError, Result};

/// A child process, killed on drop.
pub struct Kept(pub Child);

impl Kept {
    /// Kills the process, if it has not ended by itself.
    pub fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a command, writes `input` to it, and returns its standard output.
///
/// # Errors
/// [`BenchError::Peer`] with `what` and the last line of its standard error if it fails;
/// [`BenchError::File`] if it does not start.
pub async fn output(mut command: Command, input: Vec<u8>, what: &str) -> Result<Vec<u8>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut kept = Kept(start(&mut command)?);
    let pipes = (kept.0.stdin.take(), kept.0.stdout.take(), kept.0.stderr.take());
    let read = spawn_blocking(move || {
        let (stdin, stdout, stderr) = pipes;
        std::thread::scope(|scope| {
            scope.spawn(|| feed(stdin, &input));
            let errors = scope.spawn(|| read_all(stderr));
            let output = read_all(stdout);
            (output, errors.join().unwrap_or_default())
        })
    });
    let gone = |error: &dyn std::fmt::Display| BenchError::Peer(format!("{what}: {error}"));
    let (output, errors) = read.await.map_err(|error| gone(&error))?;
    let status = kept.0.wait().map_err(|error| gone(&error))?;
    if status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&errors);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(BenchError::Peer(format!("{what} ended with {status}: {last}")))
}

/// Starts a command.
///
/// # Errors
/// [`BenchError::File`] with the program's name.
pub fn start(command: &mut Command) -> Result<Child> {
    let program = command.get_program().to_os_string();
    command.spawn().map_err(|source| BenchError::file("start", program.as_ref(), source))
}

/// Writes the input. A process may close its input early; its exit status shows an error.
fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input);
    }
}

/// Reads a pipe until it ends or breaks; the exit status of the process shows which.
fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn input_goes_in_and_output_comes_out() {
        let input = vec![b'x'; 1 << 20];
        assert_eq!(output(shell("cat"), input.clone(), "cat").await.expect("ran"), input);
    }

    #[tokio::test]
    async fn a_failure_says_who_and_its_last_words() {
        let ended = output(shell("echo first >&2; echo last >&2; exit 3"), vec![], "it").await;
        let message = ended.expect_err("failed").to_string();
        assert!(message.contains("it ended") && message.contains("last"), "{message}");
        assert!(!message.contains("first"), "{message}");
        let none = output(Command::new("/no/such/program"), vec![], "it").await;
        assert!(none.expect_err("refused").to_string().contains("/no/such/program"));
    }

    #[tokio::test]
    async fn dropping_the_future_ends_it() {
        let work = output(shell("exec sleep 600"), vec![], "sleep");
        let began = std::time::Instant::now();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(50), work).await;
        assert!(waited.is_err());
        assert!(began.elapsed().as_secs() < 60);
    }
}

//! Writer of an Arrow IPC stream into a run, message by message.

use std::io;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SpillWriter;
use terrace_pool::PoolError;
use terrace_sys::size::to_u64;

use super::counters::SpillCounters;
use super::framing::{HeadParser, Piece};
use super::run::{Message, Run};
use terrace_exec::run_blocking;

/// The writer of one run. Dropping it closes the run; an incomplete message is lost, as it is when
/// an operator fails in the middle of one.
pub(super) struct RunWriter {
    run: Arc<Run>,
    counters: Arc<SpillCounters>,
    parser: HeadParser,
    /// Message that is being written, and the number of its bytes already written.
    current: Option<(Message, usize)>,
}

impl RunWriter {
    pub(super) fn new(run: Arc<Run>, counters: Arc<SpillCounters>) -> Self {
        Self { run, counters, parser: HeadParser::default(), current: None }
    }

    fn start(&mut self, head: &[u8], len_bytes: usize) -> io::Result<()> {
        // Placing a message may wait for a frame.
        let message = run_blocking(|| self.run.place(len_bytes)).map_err(other)?;
        self.current = Some((message, 0));
        self.put(head)
    }

    /// Appends bytes to the current message and publishes it when it is complete.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((message, at)) = self.current else { return Ok(()) };
        self.run.fill(message, at, bytes).map_err(other)?;
        self.counters.count_bytes(to_u64(bytes.len()));
        let filled = at + bytes.len();
        if filled == message.len_bytes {
            self.run.publish(message);
            self.current = None;
        } else {
            self.current = Some((message, filled));
        }
        Ok(())
    }
}

impl io::Write for RunWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some((message, at)) = self.current {
            let taken = bytes.len().min(message.len_bytes - at);
            self.put(&bytes[..taken])?;
            return Ok(taken);
        }
        let (taken, piece) = self.parser.feed(bytes)?;
        if let Piece::Start { head, len_bytes } = piece {
            self.start(&head, len_bytes)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for RunWriter {
    fn finish(&mut self) -> Result<()> {
        if self.current.is_some() || !self.parser.is_empty() {
            let error = io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a spill file was finished in the middle of an IPC message",
            );
            return Err(error.into());
        }
        self.run.close();
        Ok(())
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        self.run.close();
    }
}

fn other(error: PoolError) -> io::Error {
    io::Error::other(error)
}

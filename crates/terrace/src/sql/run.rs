//! Running statements and writing their results, with Ctrl-C in reach.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use terrace_sql::{QueryHandle, Session};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{CliError, Result};
use crate::sql::print::{Printer, Style};
use crate::sql::progress::Progress;

/// Bytes of output gathered before they are written.
const OUTPUT_BYTES: usize = 1 << 16;

/// Runs statements of one session.
pub struct Runner {
    session: Session,
    style: Style,
    interrupts: Signal,
}

impl Runner {
    /// A runner; from now on Ctrl-C cancels statements and no longer ends the program.
    ///
    /// # Errors
    /// When the signal cannot be watched.
    pub fn new(session: Session, style: Style) -> Result<Runner> {
        let interrupts = signal(SignalKind::interrupt())?;
        Ok(Runner { session, style, interrupts })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Forgets a Ctrl-C that came while nothing ran.
    pub fn forget_interrupts(&mut self) {
        while self.interrupts.recv().now_or_never().flatten().is_some() {}
    }

    /// Runs one statement and writes its result to standard output. Returns how long it took,
    /// writing included.
    ///
    /// # Errors
    /// [`CliError::Interrupted`] when Ctrl-C cancelled it; otherwise what the engine or the output
    /// says.
    pub async fn run(&mut self, statement: &str) -> Result<Duration> {
        let began = Instant::now();
        let (session, style) = (&self.session, self.style);
        tokio::select! {
            biased;
            _ = self.interrupts.recv() => Err(CliError::Interrupted),
            result = run(session, style, statement) => result.map(|()| began.elapsed()),
        }
    }
}

async fn run(session: &Session, style: Style, statement: &str) -> Result<()> {
    for statement in session.parse(statement)? {
        let handle = Box::pin(session.execute(statement)).await?;
        write_result(handle, style, BufWriter::with_capacity(OUTPUT_BYTES, io::stdout())).await?;
    }
    Ok(())
}

async fn write_result(mut handle: QueryHandle, style: Style, output: impl Write) -> Result<()> {
    let progress = Progress::watch(handle.query().clone());
    if handle.schema.fields().is_empty() {
        // Nothing to print; reading the stream to its end is what runs the statement.
        while let Some(batch) = handle.stream.next().await {
            batch.map_err(terrace_sql::SqlError::from)?;
        }
        return Ok(());
    }
    let mut printer = Printer::new(style, &handle.schema, output)?;
    while let Some(batch) = handle.stream.next().await {
        printer.write(&batch.map_err(terrace_sql::SqlError::from)?)?;
    }
    drop(progress);
    printer.finish()
}

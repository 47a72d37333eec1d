//! Ctrl-C for commands that run one long operation.

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{CliError, Result};

/// Runs `work` until it ends or Ctrl-C interrupts it. An interrupted operation is dropped, and with
/// it its temporary directories and processes.
///
/// # Errors
/// [`CliError::Interrupted`], or those of the work.
pub fn run<T, E>(runtime: &Runtime, work: impl Future<Output = Result<T, E>>) -> Result<T>
where
    CliError: From<E>,
{
    runtime.block_on(async {
        let mut interrupts = signal(SignalKind::interrupt())?;
        tokio::select! {
            biased;
            _ = interrupts.recv() => Err(CliError::Interrupted),
            result = Box::pin(work) => Ok(result?),
        }
    })
}

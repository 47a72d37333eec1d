//! What the program says when it cannot go on.

use std::io;
use std::path::PathBuf;

use datafusion::arrow::error::ArrowError;
use terrace_bench::BenchError;
use terrace_server::{ServerError, TlsError};
use terrace_sql::SqlError;
use terrace_tier::TierError;
use thiserror::Error;

/// The error of a command.
#[derive(Debug, Error)]
pub enum CliError {
    /// The configuration file.
    #[error("configuration {path}: {message}", path = path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Something on the command line that only the command itself can judge.
    #[error("{0}")]
    Usage(String),
    /// A file that cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The terminal or the pipe that the output goes to.
    #[error("write the output: {0}")]
    Output(#[from] io::Error),
    /// The line editor.
    #[error("read the terminal: {0}")]
    Terminal(#[from] rustyline::error::ReadlineError),
    /// The engine.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The certificate of the server.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An experiment.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A tier.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// Everything has been said already; only the exit code is left.
    #[error("failed")]
    Said,
    /// The reader of the output left before the last statement ran.
    #[error("the reader of the output is gone; {left} more statements did not run")]
    Unread {
        /// Statements that did not run.
        left: usize,
    },
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Result of everything here.
pub type Result<T, E = CliError> = std::result::Result<T, E>;

impl CliError {
    /// Whether the reader of the output is gone, as `head` is after its lines.
    pub fn is_broken_pipe(&self) -> bool {
        let error = match self {
            CliError::Output(error) => error,
            CliError::Bench(BenchError::Arrow(ArrowError::IoError(_, error))) => error,
            _ => return false,
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }
}

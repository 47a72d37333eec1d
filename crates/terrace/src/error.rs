//! Errors of the program.

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
    /// The configuration file cannot be read or parsed.
    #[error("configuration {path}: {message}", path = path.display())]
    Config {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        message: String,
    },
    /// An argument that only the command itself can check, after the command line was parsed.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The output, a terminal or a pipe, cannot be written.
    #[error("write the output: {0}")]
    Output(#[from] io::Error),
    /// Error of the line editor.
    #[error("read the terminal: {0}")]
    Terminal(#[from] rustyline::error::ReadlineError),
    /// Error of the engine.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// A statement cannot be parsed; the error shows the line.
    #[error("{error}\n{excerpt}")]
    Syntax {
        /// The error of the parser.
        #[source]
        error: Box<SqlError>,
        /// The line, and a mark below the place of the error.
        excerpt: String,
    },
    /// Error of the server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Error of the server's certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Error of an experiment.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// Error of a tier.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// The command has failed and has printed its errors already; only the exit code remains to be
    /// set.
    #[error("failed")]
    Said,
    /// The output was closed before the last statement ran.
    #[error("the reader of the output is gone; {left} more statements did not run")]
    Unread {
        /// Number of statements that did not run.
        left: usize,
    },
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

/// Result of operations of the program.
pub type Result<T, E = CliError> = std::result::Result<T, E>;

impl CliError {
    /// True if the output was closed by its reader, as `head` does after its lines.
    pub fn is_broken_pipe(&self) -> bool {
        let error = match self {
            CliError::Output(error) => error,
            CliError::Bench(BenchError::Arrow(ArrowError::IoError(_, error))) => error,
            _ => return false,
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }
}

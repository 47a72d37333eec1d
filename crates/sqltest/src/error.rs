//! Errors of the checks themselves; a wrong answer is a finding, not an error.

use std::io;
use std::path::{Path, PathBuf};

use terrace_sql::SqlError;
use thiserror::Error;

/// An error that ends a check.
#[derive(Debug, Error)]
pub enum CheckError {
    /// An option that cannot be; the message says what would be right.
    #[error("{0}")]
    Input(String),
    /// A file that cannot be read or written.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    File {
        /// The action: `read`, `write`, `start`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file from outside that is not what it should be.
    #[error("{path}: {what}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The defect and the remedy.
        what: String,
    },
    /// A download that no tool could make.
    #[error("cannot download {url}: {what}")]
    Download {
        /// The address.
        url: String,
        /// The message of each tool.
        what: String,
    },
    /// The database that answers are compared with failed.
    #[error("the peer database: {0}")]
    Peer(String),
    /// The engine could not be opened or loaded.
    #[error("the engine: {0}")]
    Engine(#[from] SqlError),
    /// Rows could not be built or read.
    #[error("rows: {0}")]
    Rows(String),
    /// The check found wrong answers; they have been printed.
    #[error("{0}")]
    Found(String),
}

impl CheckError {
    /// A [`CheckError::File`].
    pub fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), source }
    }
}

/// The result of everything here.
pub type Result<T, E = CheckError> = std::result::Result<T, E>;

//! Errors of the checks themselves; a wrong answer is a finding, not an error.

use std::io;
use std::path::{Path, PathBuf};

use terrace_sql::SqlError;
use thiserror::Error;

/// An error that ends a check.
#[derive(Debug, Error)]
pub enum CheckError {
    /// An invalid option; the message says what is valid.
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
    /// An external file with unexpected content.
    #[error("{path}: {what}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The defect and the remedy.
        what: String,
    },
    /// A download that failed with every tool.
    #[error("cannot download {url}: {what}")]
    Download {
        /// The address.
        url: String,
        /// The message of each tool.
        what: String,
    },
    /// A failure of the peer database, which answers are compared with.
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
    /// Returns a [`CheckError::File`].
    pub fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), source }
    }
}

/// The result type of this crate.
pub type Result<T, E = CheckError> = std::result::Result<T, E>;

//! What can go wrong in an experiment.

use std::io;
use std::path::{Path, PathBuf};

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use thiserror::Error;

/// The error of every experiment and of the TPC-H support.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The caller asked for something that cannot be; the message says what would be right.
    #[error("{0}")]
    Input(String),
    /// The engine refused or failed; the message is the engine's.
    #[error("{0}")]
    Engine(String),
    /// The peer that the engine is compared with failed.
    #[error("the comparison run failed: {0}")]
    Peer(String),
    /// A file could not be read or written.
    #[error("{action} {path}: {source}", path = path.display())]
    File {
        /// What was tried: `write`, `read`, `start`.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The pipe to or from a helper process broke.
    #[error("the data generator: {0}")]
    Feed(String),
    /// Batches could not be encoded, decoded or computed on.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// DataFusion failed outside the engine.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
    /// The picture could not be drawn.
    #[error("draw {path}: {message}", path = path.display())]
    Picture {
        /// The file meant.
        path: PathBuf,
        /// The backend's message.
        message: String,
    },
}

impl BenchError {
    /// An [`BenchError::Input`].
    pub fn input(message: impl Into<String>) -> BenchError {
        BenchError::Input(message.into())
    }

    /// A [`BenchError::File`] for `action` on `path`.
    pub fn file(action: &'static str, path: &Path, source: io::Error) -> BenchError {
        BenchError::File { action, path: path.to_path_buf(), source }
    }
}

/// Result of everything here.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

//! Errors of experiments.

use std::io;
use std::path::{Path, PathBuf};

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use thiserror::Error;

/// The error of every experiment and of the TPC-H support.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Invalid input; the message names valid input.
    #[error("{0}")]
    Input(String),
    /// The engine refused a request or failed; the message is the engine's.
    #[error("{0}")]
    Engine(String),
    /// The engine that Terrace is compared with failed.
    #[error("the comparison run failed: {0}")]
    Peer(String),
    /// A file could not be read or written.
    #[error("{action} {path}: {source}", path = path.display())]
    File {
        /// The attempted action: `write`, `read`, `start`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
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
        /// Path of the picture.
        path: PathBuf,
        /// Message of the drawing backend.
        message: String,
    },
}

impl BenchError {
    /// Creates a [`BenchError::Input`].
    pub fn input(message: impl Into<String>) -> BenchError {
        BenchError::Input(message.into())
    }

    /// Creates a [`BenchError::File`] for `action` on `path`.
    pub fn file(action: &'static str, path: &Path, source: io::Error) -> BenchError {
        BenchError::File { action, path: path.to_path_buf(), source }
    }
}

/// Result of operations of this crate.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

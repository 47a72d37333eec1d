//! Errors of the workloads.

use std::fmt;

use terrace_index::IndexError;
use terrace_pool::PoolError;

/// An error of a workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The configuration is invalid; the message names the valid values.
    #[error("{0}")]
    Config(String),
    /// An operation on a tree failed.
    #[error("{table}: {source}")]
    Index {
        /// Name of the tree.
        table: &'static str,
        /// Error of the tree.
        source: Box<IndexError>,
    },
    /// The pool failed.
    #[error(transparent)]
    Pool(Box<PoolError>),
    /// A row that must exist is missing.
    #[error("{table} has no row of key {key}")]
    Missing {
        /// Name of the tree.
        table: &'static str,
        /// The key in hexadecimal digits.
        key: Hex,
    },
    /// A row to be inserted exists already.
    #[error("{table} has a row of key {key} already")]
    Exists {
        /// Name of the tree.
        table: &'static str,
        /// The key in hexadecimal digits.
        key: Hex,
    },
    /// The contents of a row are not what was written.
    #[error("the row of key {key} of {table} is damaged: {what}")]
    Damaged {
        /// Name of the tree.
        table: &'static str,
        /// The key in hexadecimal digits.
        key: Hex,
        /// Description of the damage.
        what: &'static str,
    },
    /// Two figures that are equal in a consistent database are not.
    #[error(
        "consistency condition {condition} of TPC-C does not hold in {place}: {left_name} is \
         {left}, {right_name} is {right}"
    )]
    Inconsistent {
        /// The number of the condition in clause 3.3.2 of the specification.
        condition: u8,
        /// The warehouse or the district.
        place: String,
        /// Name of the first figure.
        left_name: &'static str,
        /// The first figure.
        left: i64,
        /// Name of the second figure.
        right_name: &'static str,
        /// The second figure.
        right: i64,
    },
    /// A thread of the run panicked.
    #[error("a thread of the run panicked")]
    Panicked,
}

impl From<PoolError> for WorkloadError {
    fn from(error: PoolError) -> Self {
        WorkloadError::Pool(Box::new(error))
    }
}

/// Bytes that are displayed as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Result of the functions of this crate.
pub type Result<T, E = WorkloadError> = std::result::Result<T, E>;

//! What can go wrong in a workload.

use std::fmt;

use terrace_index::IndexError;
use terrace_pool::PoolError;

/// An error of a workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The workload cannot be set up like this; the message says what would be right.
    #[error("{0}")]
    Config(String),
    /// A tree failed.
    #[error("{table}: {source}")]
    Index {
        /// The tree.
        table: &'static str,
        /// What it says.
        source: Box<IndexError>,
    },
    /// The pool failed.
    #[error(transparent)]
    Pool(Box<PoolError>),
    /// A row that must be there is not.
    #[error("{table} has no row of key {key}")]
    Missing {
        /// The tree.
        table: &'static str,
        /// The key in hexadecimal digits.
        key: Hex,
    },
    /// A row is there before it is inserted.
    #[error("{table} has a row of key {key} already")]
    Exists {
        /// The tree.
        table: &'static str,
        /// The key in hexadecimal digits.
        key: Hex,
    },
    /// A row is not what was written.
    #[error("the row of key {key} of {table} is damaged: {what}")]
    Damaged {
        /// The tree.
        table: &'static str,
        /// The key in hexadecimal digits.
        key: Hex,
        /// What is wrong with it.
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
        /// The warehouse, or the district.
        place: String,
        /// What the first figure is.
        left_name: &'static str,
        /// The first figure.
        left: i64,
        /// What the second figure is.
        right_name: &'static str,
        /// The second figure.
        right: i64,
    },
    /// A thread of the run died.
    #[error("a thread of the run panicked")]
    Panicked,
}

impl From<PoolError> for WorkloadError {
    fn from(error: PoolError) -> Self {
        WorkloadError::Pool(Box::new(error))
    }
}

/// Bytes that are printed as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Result of everything here.
pub type Result<T, E = WorkloadError> = std::result::Result<T, E>;

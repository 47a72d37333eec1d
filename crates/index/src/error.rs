//! Errors of an index.

use terrace_pool::{PageId, PoolError};

/// An error of an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The configuration is outside of its limits; the message names them.
    #[error("{0}")]
    Config(String),
    /// A record that is too large for a page of the index.
    #[error(
        "a key of {key_bytes} bytes with a value of {value_bytes} does not fit in a page: both \
         together have at most {limit_bytes} bytes, the key {key_limit_bytes}"
    )]
    TooLarge {
        /// Bytes of the key.
        key_bytes: usize,
        /// Bytes of the value.
        value_bytes: usize,
        /// Maximum bytes of a key and its value together.
        limit_bytes: usize,
        /// Maximum bytes of a key.
        key_limit_bytes: usize,
    },
    /// Records of a bulk load that are not in ascending order of their keys.
    #[error("record {record} of a bulk load has a key that is not above the one before it")]
    Order {
        /// Number of the record, from 0.
        record: u64,
    },
    /// Concurrent writers took the room that was made, in every attempt. The records are unchanged.
    #[error("no room for a record was to be had in {turns} attempts")]
    Contended {
        /// Number of attempts.
        turns: usize,
    },
    /// A page of the index fails its checks.
    #[error("page {page} of an index is damaged: {what}")]
    Corrupt {
        /// Id of the page.
        page: PageId,
        /// Description of the damage.
        what: &'static str,
    },
    /// The pool failed. The records are unchanged.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Result of operations on an index.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;

/// Description of damage in the bytes of a page.
pub(crate) type Fault = &'static str;

/// Adds the page to a fault.
pub(crate) fn in_page<T>(page: PageId, result: Result<T, Fault>) -> Result<T> {
    result.map_err(|what| IndexError::Corrupt { page, what })
}

//! What can go wrong in an index.

use terrace_pool::{PageId, PoolError};

/// An error of an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The index cannot be set up like this; the message says what would be right.
    #[error("{0}")]
    Config(String),
    /// A key and a value that no page of the index has room for.
    #[error(
        "a key of {key_bytes} bytes with a value of {value_bytes} does not fit in a page: both \
         together have at most {limit_bytes} bytes, the key {key_limit_bytes}"
    )]
    TooLarge {
        /// Bytes of the key.
        key_bytes: usize,
        /// Bytes of the value.
        value_bytes: usize,
        /// What a key and its value may have together.
        limit_bytes: usize,
        /// What a key may have.
        key_limit_bytes: usize,
    },
    /// Records to be loaded that are not in ascending order of their keys.
    #[error("record {record} of a bulk load has a key that is not above the one before it")]
    Order {
        /// The record's number, from 0.
        record: u64,
    },
    /// Others took the room that was made, again and again. The index is as before.
    #[error("no room for a record was to be had in {turns} attempts")]
    Contended {
        /// How often room was made.
        turns: usize,
    },
    /// A page of the index is not what the index wrote.
    #[error("page {page} of an index is damaged: {what}")]
    Corrupt {
        /// The page.
        page: PageId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The pool failed. The index is as before.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Result of everything here.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;

/// What is wrong with a page's bytes.
pub(crate) type Fault = &'static str;

/// Says which page a fault is in.
pub(crate) fn in_page<T>(page: PageId, result: Result<T, Fault>) -> Result<T> {
    result.map_err(|what| IndexError::Corrupt { page, what })
}

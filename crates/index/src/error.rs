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
         together have at most {limit_bytes} bytes"
    )]
    TooLarge {
        /// Bytes of the key.
        key_bytes: usize,
        /// Bytes of the value.
        value_bytes: usize,
        /// What a key and its value may have together.
        limit_bytes: usize,
    },
    /// A page of the index is not what the index wrote.
    #[error("page {page} of a hash index is damaged: {what}")]
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

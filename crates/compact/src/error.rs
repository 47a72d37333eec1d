//! Errors of encoding and decoding.

use std::panic::{AssertUnwindSafe, catch_unwind};

use vortex_error::VortexError;

/// Error of encoding or decoding a column.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The bytes are damaged: they differ from those that were encoded.
    #[error("{0}")]
    Damaged(String),
    /// The encodings refuse the values or the bytes.
    #[error("{0}")]
    Encoding(Box<VortexError>),
    /// Arrow refuses an array.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
}

impl From<VortexError> for CompactError {
    fn from(error: VortexError) -> Self {
        Self::Encoding(Box::new(error))
    }
}

impl CompactError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}

/// Runs `work` and converts a panic to an error: the encodings assert invariants that damaged bytes
/// violate.
pub(crate) fn guarded<T>(
    work: impl FnOnce() -> Result<T, CompactError>,
) -> Result<T, CompactError> {
    // `work` changes nothing that it borrows, so a panic leaves no inconsistent state.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(CompactError::damaged(what.unwrap_or("it cannot be decoded")))
    })
}

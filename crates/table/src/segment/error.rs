//! Errors of segments.

use terrace_compact::CompactError;

/// An error of writing or reading a segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The bytes are not a segment of the expected type.
    #[error("malformed segment: {0}")]
    Malformed(String),
    /// Arrow refused an array.
    #[error("malformed segment: {0}")]
    Arrow(#[from] datafusion::arrow::error::ArrowError),
    /// The encodings of a compact segment rejected its values or its bytes.
    #[error("malformed segment: {0}")]
    Compact(#[from] CompactError),
    /// A segment written by a version that this program does not know.
    #[error("segment of format version {found}, this program reads version {expected}")]
    Version {
        /// Version in the segment.
        found: u8,
        /// Version that this program writes.
        expected: u8,
    },
    /// A segment with an encoding that this program does not know.
    #[error("segment with encoding {0}, this program reads encodings 0 (plain) and 1 (compact)")]
    Encoding(u8),
    /// A column type that segments cannot store.
    #[error("columns of type {found} cannot be stored; cast it to {instead}")]
    Type {
        /// The type.
        found: String,
        /// Type to use instead.
        instead: &'static str,
    },
    /// The buffer given to the encoder is smaller than the plan requires.
    #[error("segment of {needed} bytes does not fit {given} bytes")]
    Room {
        /// Bytes of the segment.
        needed: usize,
        /// Bytes of the buffer.
        given: usize,
    },
    /// A length that exceeds the format's 32-bit fields.
    #[error("segment of {0} bytes; a segment holds less than 4 GiB")]
    TooLong(usize),
}

impl SegmentError {
    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}

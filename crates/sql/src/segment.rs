//! Segments: one column of one chunk, in one page and one extent.
//!
//! A segment begins with a header and a directory, followed by the buffers of its blocks in Arrow
//! layout, each aligned to 64 bytes. All numbers are little-endian `u32` unless said otherwise.
//!
//! ```text
//!  0  magic "TSEG"           16  rows in the segment
//!  4  version, encoding: u8  20  bytes of header and directory
//!  6  zero: u16              24  bytes of the segment
//!  8  code of the type       28  CRC-32C of header and directory
//! 12  blocks                 32  per block: rows, offset of its first node
//!
//! node: length, buffers, offset and length of each; bit 31 of the number of buffers says that the
//!       first of them is the validity bitmap. The nodes of a block are its tree of arrays in
//!       preorder, as the column's type prescribes.
//! ```
//!
//! A block is read without a copy: each buffer becomes an Arrow buffer of exactly its own length,
//! owned by the pin of the page, so that a query is charged for exactly what it holds. For that,
//! the encoder normalises its output: offsets begin at zero, bitmaps at bit zero, and dictionaries
//! and view buffers hold only what their rows use.
//!
//! A compact segment has one tree of encodings for the column instead of nodes, and one body of
//! buffers. Its directory holds, after the rows of each block (with a zero in place of the offset),
//! the lengths of the tree's description and of the body, and the description. The body begins at
//! the next multiple of 256 bytes. `terrace-compact` defines the contents of both.
//!
//! Header and directory have a checksum of their own and are checked against the page on every
//! open. The contents of the buffers (offsets, text, dictionary keys) were valid when they were
//! encoded, and the store's checksum over the whole extent ensures that they are unchanged.

mod compact;
mod decode;
mod encode;
mod format;
mod kind;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::str::FromStr;

use terrace_compact::CompactError;

pub(crate) use compact::{CompactPlan, HeapBytes};
pub use decode::Segment;
pub use encode::{BlockPlan, SegmentPlan};
pub use kind::check_type;

/// Layout of the values of a segment. Part of the format and of a table's definition.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Arrow layout, read without a copy.
    Plain,
    /// Compressed, decoded on each read. Segments that do not shrink are stored plain.
    #[default]
    Compact,
}

impl Encoding {
    /// Returns the code of the encoding in segments and in the catalog.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Compact => 1,
        }
    }

    /// Returns the encoding with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.code() == code)
    }

    /// All encodings.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Compact];
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_named = |encoding: &Self| encoding.to_string().eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(is_named).ok_or_else(|| {
            let names = Self::ALL.map(|encoding| format!("'{encoding}'"));
            format!("there is no encoding {name:?}; name one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain"),
            Self::Compact => f.write_str("compact"),
        }
    }
}

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

//! Extents, and the requests to read and write them.

use std::fmt;

use terrace_sys::size::PAGE_BYTES;

/// Alignment of the offsets and lengths of extents in bytes: one page.
pub const EXTENT_ALIGN_BYTES: u64 = PAGE_BYTES as u64;

/// A run of pages of a store.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// Offset of the first byte, a multiple of 4,096.
    pub offset_bytes: u64,
    /// Length in bytes, a multiple of 4,096.
    pub len_bytes: u64,
}

impl Extent {
    /// Returns the offset one past the last byte.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// True if the extent is a run of at least one whole page.
    #[must_use]
    pub fn is_whole_pages(&self) -> bool {
        self.len_bytes > 0
            && self.offset_bytes.is_multiple_of(EXTENT_ALIGN_BYTES)
            && self.len_bytes.is_multiple_of(EXTENT_ALIGN_BYTES)
            && self.offset_bytes.checked_add(self.len_bytes).is_some()
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the extent of {} bytes at {}", self.len_bytes, self.offset_bytes)
    }
}

/// Rounds `len_bytes` up to whole pages; `None` for zero and on overflow of 64 bits.
pub(super) fn whole_pages(len_bytes: u64) -> Option<u64> {
    len_bytes.checked_next_multiple_of(EXTENT_ALIGN_BYTES).filter(|len| *len > 0)
}

/// A written extent, and the checksum that its bytes must have when they are read.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stored {
    /// Position of the bytes.
    pub extent: Extent,
    /// CRC-32C of the position and the bytes, see [`checksum`](fn@super::checksum).
    pub checksum: u32,
}

/// One write of a batch.
#[derive(Copy, Clone, Debug)]
pub struct Write<'a> {
    /// Extent to write, allocated or claimed by the caller.
    pub extent: Extent,
    /// Bytes to write, of the length of the extent and starting on a 4,096-byte boundary.
    pub data: &'a [u8],
}

/// One read of a batch.
#[derive(Debug)]
pub struct Read<'a> {
    /// Extent to read, with the expected checksum.
    pub stored: Stored,
    /// Buffer of the length of the extent, starting on a 4,096-byte boundary. After an error its
    /// contents are unspecified.
    pub data: &'a mut [u8],
}

//! Extents and what is asked of them.

use std::fmt;

use terrace_sys::size::PAGE_BYTES;

/// Offsets and lengths of extents are multiples of this many bytes, a page.
pub const EXTENT_ALIGN_BYTES: u64 = PAGE_BYTES as u64;

/// A run of pages of a store.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// First byte, a multiple of 4,096.
    pub offset_bytes: u64,
    /// Bytes, a multiple of 4,096.
    pub len_bytes: u64,
}

impl Extent {
    /// One past the last byte.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// Whether it is a run of at least one whole page.
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

/// `len_bytes` rounded up to whole pages; `None` for zero and for what exceeds 64 bits.
pub(super) fn whole_pages(len_bytes: u64) -> Option<u64> {
    len_bytes.checked_next_multiple_of(EXTENT_ALIGN_BYTES).filter(|len| *len > 0)
}

/// An extent that was written, and the checksum that its bytes must have when they are read.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stored {
    /// Where the bytes are.
    pub extent: Extent,
    /// CRC-32C of position and bytes, see [`checksum`](super::checksum).
    pub checksum: u32,
}

/// One write of a batch.
#[derive(Copy, Clone, Debug)]
pub struct Write<'a> {
    /// Where to; allocated or claimed by the caller.
    pub extent: Extent,
    /// As many bytes as the extent has, starting on a 4,096-byte boundary.
    pub data: &'a [u8],
}

/// One read of a batch.
#[derive(Debug)]
pub struct Read<'a> {
    /// What to read and how to verify it.
    pub stored: Stored,
    /// As many bytes as the extent has, starting on a 4,096-byte boundary. After an error its
    /// contents are unspecified.
    pub data: &'a mut [u8],
}

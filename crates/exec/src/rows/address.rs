//! Addresses of rows.

use terrace_sys::size::{to_u64, to_usize};

use super::layout::ROW_BITS;

/// The address of a row in its collection: 32 bits of page, 16 bits of row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowAddress(u64);

impl RowAddress {
    /// No row: all its columns are null.
    pub const NONE: Self = Self(u64::MAX);
    /// Number of bits of an address; only [`RowAddress::NONE`] has more.
    pub const BITS: u32 = 32 + ROW_BITS;

    /// Returns the address as a word.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the address that [`RowAddress::to_bits`] encoded.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn new(page: usize, row: usize) -> Self {
        Self(to_u64(page) << ROW_BITS | to_u64(row))
    }

    /// Returns the index of the page.
    #[must_use]
    pub fn page(self) -> usize {
        to_usize(self.0 >> ROW_BITS)
    }

    /// Returns the index of the row in its page.
    #[must_use]
    pub fn row(self) -> usize {
        to_usize(self.0 & ((1 << ROW_BITS) - 1))
    }
}

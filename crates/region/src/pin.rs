//! Pins of ranges of a region.

use std::ops::Range;
use std::sync::Arc;

use crate::state::Shared;

/// Blocks that stay resident at their addresses until the pin is dropped.
#[derive(Debug)]
pub struct Pin {
    shared: Arc<Shared>,
    blocks: Range<usize>,
    offset: usize,
    len: usize,
}

impl Pin {
    /// Takes over a pin on each of `blocks`, for `len` bytes from `offset` on.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        blocks: Range<usize>,
        offset: usize,
        len: usize,
    ) -> Self {
        Self { shared: Arc::clone(shared), blocks, offset, len }
    }

    /// Returns the address of the first byte of the pinned range.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.shared.mapping.as_ptr().wrapping_add(self.offset)
    }

    /// Length of the pinned range in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the pinned range is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.blocks.clone().for_each(|block| self.shared.words[block].unpin());
    }
}

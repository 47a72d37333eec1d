//! What is there before anything is claimed: by it a caller tells a store of its own from bytes
//! that somebody else wants.

use std::sync::Arc;

use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{PAGE_BYTES, to_u64};

use super::{Extent, Io, Store, StoreError};

impl Store {
    /// Whether its file, device or memory was never written, as far as that can be told at once.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the device fails.
    pub fn is_blank(&self) -> Result<bool, StoreError> {
        self.blocks.is_blank().map_err(|source| self.unusable(source))
    }

    /// Bytes that its file or device has: extents beyond were never written.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the device cannot tell.
    pub fn len_bytes(&self) -> Result<u64, StoreError> {
        self.blocks.len_bytes().map_err(|source| self.unusable(source))
    }

    /// The first page, whatever it holds: nothing vouches for it. `None` when it has less than a
    /// page.
    ///
    /// # Errors
    /// [`StoreError::Open`] or [`StoreError::Read`] when the device fails.
    pub fn first_page(&self) -> Result<Option<AlignedBuffer>, StoreError> {
        if self.len_bytes()? < to_u64(PAGE_BYTES) {
            return Ok(None);
        }
        let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
        let mut batch = [Io::read(0, &mut page)];
        self.blocks.run(&mut batch, &|_| ());
        let [io] = batch;
        match io.result {
            Ok(()) => Ok(Some(page)),
            Err(error) => {
                let extent = Extent { offset_bytes: 0, len_bytes: to_u64(PAGE_BYTES) };
                Err(self.read_failed(extent, error))
            }
        }
    }

    fn unusable(&self, source: std::io::Error) -> StoreError {
        StoreError::Open { store: self.name.clone(), source: Arc::new(source) }
    }
}

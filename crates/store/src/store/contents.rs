//! Inspects a file or device before any extent is claimed, so that foreign data is never
//! overwritten.

use std::sync::Arc;

use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{PAGE_BYTES, to_u64};

use super::Store;
use crate::blocks::Io;
use crate::error::StoreError;
use crate::extent::Extent;

impl Store {
    /// True if the file, device or memory was never written, as far as that can be told without
    /// reading all of it.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the device fails.
    pub fn is_blank(&self) -> Result<bool, StoreError> {
        self.blocks.is_blank().map_err(|source| self.unusable(source))
    }

    /// Returns the length of the file or device in bytes: extents beyond were never written.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the length cannot be determined.
    pub fn len_bytes(&self) -> Result<u64, StoreError> {
        self.blocks.len_bytes().map_err(|source| self.unusable(source))
    }

    /// Reads the first page without verifying it; `None` if the file or device is shorter than a
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

//! Heap buffers aligned to a page, as direct I/O requires.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::size::PAGE_BYTES;

/// A zero-filled byte buffer whose address is a multiple of [`PAGE_BYTES`].
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer is the only owner of its allocation and lends it only under borrow rules.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above; a shared borrow only reads.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Allocates `len` zero bytes.
    ///
    /// # Panics
    /// Panics if `len` exceeds `isize::MAX` less a page. Aborts if the allocator has no memory.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: `layout` has a size of at least one page.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuffer { start, len }
    }

    /// Creates a buffer with a copy of `data`.
    #[must_use]
    pub fn copy_of(data: &[u8]) -> Self {
        let mut buffer = Self::zeroed(data.len());
        buffer.copy_from_slice(data);
        buffer
    }

    fn layout(len: usize) -> Layout {
        match Layout::from_size_align(len.max(PAGE_BYTES), PAGE_BYTES) {
            Ok(layout) => layout,
            Err(error) => panic!("a buffer of {len} bytes exceeds the address space: {error}"),
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is the allocation made in `zeroed`, at least `len` bytes, initialised to
        // zero, and borrowed through `self` for the life of the slice.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` excludes every other borrow.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.len)
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this same layout and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zero_and_writable() {
        for len in [0, 1, 4096, 10_000] {
            let mut buffer = AlignedBuffer::zeroed(len);
            assert_eq!(buffer.as_ptr().addr() % PAGE_BYTES, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            assert_eq!(&*buffer, &*AlignedBuffer::copy_of(&vec![7; len]));
        }
    }
}

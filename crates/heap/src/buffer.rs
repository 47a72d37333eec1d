//! Immutable bytes in a heap.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::{Heap, HeapError};

/// Immutable bytes in a heap, freed when the buffer is dropped. The buffer keeps its heap alive.
#[derive(Debug)]
pub struct HeapBuffer {
    heap: Heap,
    place: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns the bytes, which never change while it lives.
unsafe impl Send for HeapBuffer {}
// SAFETY: as above.
unsafe impl Sync for HeapBuffer {}

impl HeapBuffer {
    /// Returns the heap that the bytes are in.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        &self.heap
    }
}

impl AsRef<[u8]> for HeapBuffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the object has `layout.size()` bytes, which were written before the buffer was
        // returned to a caller; they live as long as the buffer.
        unsafe { std::slice::from_raw_parts(self.place.as_ptr(), self.layout.size()) }
    }
}

impl Drop for HeapBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in this heap with this layout; no borrow outlives the buffer.
        unsafe { self.heap.deallocate(self.place, self.layout) }
    }
}

impl Heap {
    /// Copies bytes into this heap, at an address that is a multiple of `align`.
    ///
    /// # Errors
    /// [`HeapError::NoRoom`]; [`HeapError::Config`] for an alignment that is no power of two.
    pub fn copy(&self, bytes: &[u8], align: usize) -> Result<HeapBuffer, HeapError> {
        let layout = Layout::from_size_align(bytes.len(), align).map_err(|error| {
            let reason = format!("{} bytes at a multiple of {align}: {error}", bytes.len());
            HeapError::Config { heap: self.name().to_owned(), reason }
        })?;
        let place = self.allocate(layout)?;
        // SAFETY: the object was just allocated with `bytes.len()` bytes, and no other code has its
        // address.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(HeapBuffer { heap: self.clone(), place, layout })
    }
}

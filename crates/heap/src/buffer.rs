//! Bytes in a heap that never change.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::{Heap, HeapError};

/// Bytes in a heap, written once. They are freed when this is dropped, and keep their heap alive.
#[derive(Debug)]
pub struct HeapBuffer {
    heap: Heap,
    place: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are this buffer's alone and never change while it lives.
unsafe impl Send for HeapBuffer {}
// SAFETY: as above.
unsafe impl Sync for HeapBuffer {}

impl HeapBuffer {
    /// The heap that the bytes are in.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        &self.heap
    }
}

impl AsRef<[u8]> for HeapBuffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the object has so many bytes, which were written before anybody saw it; they
        // live as long as the buffer.
        unsafe { std::slice::from_raw_parts(self.place.as_ptr(), self.layout.size()) }
    }
}

impl Drop for HeapBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in this heap with this layout, and nobody borrows it any more.
        unsafe { self.heap.deallocate(self.place, self.layout) }
    }
}

impl Heap {
    /// A copy of bytes in this heap, at a multiple of `align`.
    ///
    /// # Errors
    /// [`HeapError::NoRoom`]; [`HeapError::Config`] for an alignment that is no power of two.
    pub fn copy(&self, bytes: &[u8], align: usize) -> Result<HeapBuffer, HeapError> {
        let layout = Layout::from_size_align(bytes.len(), align).map_err(|error| {
            let reason = format!("{} bytes at a multiple of {align}: {error}", bytes.len());
            HeapError::Config { heap: self.name().to_owned(), reason }
        })?;
        let place = self.allocate(layout)?;
        // SAFETY: the object was just allocated with as many bytes, and is nobody else's.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(HeapBuffer { heap: self.clone(), place, layout })
    }
}

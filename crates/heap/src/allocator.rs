//! The [`Allocator`] trait, which collections require, for [`Heap`].

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::Heap;

/// Returns the object as a slice of the requested length.
fn slice(object: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(object, layout.size())
}

// SAFETY: objects keep their addresses until they are freed or the last clone of the heap is
// dropped; a clone is the same heap, and moving one has no effect on objects.
unsafe impl Allocator for Heap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout).map(|object| slice(object, layout)).ok_or(AllocError)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take_zeroed(layout).map(|object| slice(object, layout)).ok_or(AllocError)
    }

    unsafe fn deallocate(&self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the trait requires the same of its caller.
        unsafe { self.deallocate(object, layout) }
    }

    unsafe fn grow(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as above.
        let object = unsafe { self.reallocate(object, old, new) }.map_err(|_| AllocError)?;
        Ok(slice(object, new))
    }

    unsafe fn grow_zeroed(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as above.
        let object = unsafe { self.reallocate(object, old, new) }.map_err(|_| AllocError)?;
        // SAFETY: the object has the new length, which is not less than the old one.
        unsafe { object.add(old.size()).write_bytes(0, new.size() - old.size()) };
        Ok(slice(object, new))
    }

    unsafe fn shrink(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as above.
        let object = unsafe { self.reallocate(object, old, new) }.map_err(|_| AllocError)?;
        Ok(slice(object, new))
    }
}

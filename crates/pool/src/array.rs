//! Arrays in reserved address space, which cost memory only where they were touched.

use std::io;
use std::marker::PhantomData;

use terrace_sys::map::Mapping;

/// A type whose all-zero bytes are a valid, initial value.
///
/// # Safety
/// Every bit pattern of zeroes must be a valid value, and the type must not need dropping.
pub(crate) unsafe trait Zeroed: Sync + Send {}

/// A fixed number of `T`, all zero at first, in lazily touched memory.
#[derive(Debug)]
pub(crate) struct ZeroedArray<T: Zeroed> {
    mapping: Mapping,
    len: usize,
    _items: PhantomData<T>,
}

impl<T: Zeroed> ZeroedArray<T> {
    pub(crate) fn reserve(len: usize) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        let bytes = bytes.max(1).next_multiple_of(terrace_sys::size::PAGE_BYTES);
        Ok(Self { mapping: Mapping::reserve(bytes)?, len, _items: PhantomData })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        // SAFETY: the mapping is page aligned, `len` items long, lives as long as `self`, and is
        // handed out as shared references only; its bytes were zero, a valid `T`, and since then
        // were changed through `&T` alone.
        Some(unsafe { &*self.mapping.as_ptr().cast::<T>().add(index) })
    }
}

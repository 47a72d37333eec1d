//! Objects of a heap.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use crate::arguments::shared;
use crate::heap::Heap;
use crate::status::{Failure, Status, attempt, status};

/// Default alignment of an object, the same as that of `malloc`.
const ALIGN_USUAL: usize = 16;

/// Returns the layout of an object. Size 0 counts as 1, so that each object has its own address.
fn layout(heap: &Heap, size: usize, align: usize) -> Result<Layout, Failure> {
    let align = if align == 0 { ALIGN_USUAL } else { align };
    Layout::from_size_align(size.max(1), align).map_err(|_| {
        Failure::invalid(format!(
            "heap {}: {size} bytes aligned to {align} cannot be; an alignment is a power of two",
            heap.heap.name()
        ))
    })
}

/// Returns the object behind a pointer, which must be an address of this heap; `None` for NULL.
fn object(heap: &Heap, pointer: *mut c_void) -> Result<Option<NonNull<u8>>, Failure> {
    let Some(object) = NonNull::new(pointer.cast::<u8>()) else { return Ok(None) };
    if heap.heap.contains(object.as_ptr()) {
        return Ok(Some(object));
    }
    let name = heap.heap.name();
    Err(Failure::invalid(format!("heap {name}: {pointer:p} is no address of this heap")))
}

/// Returns the address of the object that `work` allocates, or NULL.
fn answer(work: impl FnOnce() -> Result<NonNull<u8>, Failure>) -> *mut c_void {
    attempt(work).map_or(null_mut(), |object| object.as_ptr().cast())
}

/// Allocates an object of size bytes, whose contents are undefined. align is a power of two, or 0
/// for 16. An object of 0 bytes counts as one of 1.
///
/// Returns NULL if memory or budget is exhausted, or for an invalid alignment; terrace_last_status
/// tells which.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_alloc(
    heap: *const Heap,
    size: usize,
    align: usize,
) -> *mut c_void {
    answer(|| {
        // SAFETY: the caller's promise.
        let heap = unsafe { shared(heap, "heap") }?;
        Ok(heap.heap.allocate(layout(heap, size, align)?)?)
    })
}

/// As terrace_heap_alloc, with all bytes zero.
///
/// # Safety
/// As for terrace_heap_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_alloc_zeroed(
    heap: *const Heap,
    size: usize,
    align: usize,
) -> *mut c_void {
    answer(|| {
        // SAFETY: the caller's promise.
        let heap = unsafe { shared(heap, "heap") }?;
        Ok(heap.heap.allocate_zeroed(layout(heap, size, align)?)?)
    })
}

/// As calloc: allocates count times size bytes that are zero, aligned to 16. Returns NULL also if
/// the product overflows.
///
/// # Safety
/// As for terrace_heap_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_calloc(
    heap: *const Heap,
    count: usize,
    size: usize,
) -> *mut c_void {
    answer(|| {
        // SAFETY: the caller's promise.
        let heap = unsafe { shared(heap, "heap") }?;
        let all = count.checked_mul(size).ok_or_else(|| {
            let name = heap.heap.name();
            Failure::invalid(format!("heap {name}: {count} times {size} bytes cannot be"))
        })?;
        Ok(heap.heap.allocate_zeroed(layout(heap, all, 0)?)?)
    })
}

/// Changes the length of an object, in place if possible; the bytes within both lengths are kept.
/// For NULL it allocates an object. align is that of the object, or 0 for 16.
///
/// Returns NULL if memory is exhausted, or for a pointer that is not this heap's: the object is
/// then unchanged. Otherwise the old address is invalid. Size 0 frees nothing: it counts as 1.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed, and no
/// other code uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_realloc(
    heap: *const Heap,
    pointer: *mut c_void,
    size: usize,
    align: usize,
) -> *mut c_void {
    answer(|| {
        // SAFETY: the caller's promise.
        let heap = unsafe { shared(heap, "heap") }?;
        let layout = layout(heap, size, align)?;
        match object(heap, pointer)? {
            // SAFETY: the caller's promise; the layout has a byte at least.
            Some(object) => Ok(unsafe { heap.heap.resize(object, layout) }?),
            None => Ok(heap.heap.allocate(layout)?),
        }
    })
}

/// Frees an object, on any thread; NULL is allowed.
///
/// TERRACE_STATUS_INVALID for an address outside of the heap; nothing is freed then.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed, and no
/// code uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_free(heap: *const Heap, pointer: *mut c_void) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let heap = unsafe { shared(heap, "heap") }?;
        if let Some(object) = object(heap, pointer)? {
            // SAFETY: the caller's promise; no object is without bytes.
            unsafe { heap.heap.free(object) };
        }
        Ok(())
    })
}

/// As terrace_heap_free, for callers that know the size and the alignment with which the object was
/// last allocated.
///
/// # Safety
/// As for terrace_heap_free; the size and the alignment are those of the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_free_sized(
    heap: *const Heap,
    pointer: *mut c_void,
    size: usize,
    align: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let heap = unsafe { shared(heap, "heap") }?;
        let layout = layout(heap, size, align)?;
        if let Some(object) = object(heap, pointer)? {
            // SAFETY: the caller's promise.
            unsafe { heap.heap.deallocate(object, layout) };
        }
        Ok(())
    })
}

/// Returns the size of an object, all of which may be used, and which may exceed the requested
/// size; 0 for NULL and for an address outside of the heap.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_usable_size(
    heap: *const Heap,
    pointer: *mut c_void,
) -> usize {
    let bytes = attempt(|| {
        // SAFETY: the caller's promise.
        let heap = unsafe { shared(heap, "heap") }?;
        let object = object(heap, pointer)?;
        // SAFETY: the caller's promise; no object is without bytes.
        Ok(object.map_or(0, |object| unsafe { heap.heap.usable_bytes(object) }))
    });
    bytes.unwrap_or(0)
}

/// Returns true if an address is within the heap, in an object or not.
///
/// # Safety
/// As for terrace_heap_alloc; the address may be any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_contains(heap: *const Heap, address: *const c_void) -> bool {
    // SAFETY: the caller's promise.
    let inside = attempt(|| Ok(unsafe { shared(heap, "heap") }?.heap.contains(address.cast())));
    inside.unwrap_or(false)
}

//! Sizes and alignments of objects: jemalloc's size classes.

use std::alloc::Layout;
use std::ffi::c_int;

use tikv_jemalloc_sys::{MALLOCX_ALIGN, nallocx};

/// Alignment that every object of at least this many bytes has without a request.
const ALIGN_ALWAYS: usize = 16;

/// Returns the bytes of the largest object that takes at most `bytes`, a number of some MiB in
/// whole pages.
pub(crate) fn size_within(bytes: usize) -> usize {
    // There are four size classes between two powers of two, unless jemalloc rounds to pages.
    let step = 1 << (bytes.ilog2() - 2);
    if usable(bytes, ALIGN_ALWAYS) == bytes { bytes } else { bytes / step * step }
}

/// Returns the flag that requests the alignment `align`, or 0 if every object of `size` bytes has
/// it without a request.
pub(crate) fn align_flag(size: usize, align: usize) -> c_int {
    if align <= ALIGN_ALWAYS && align <= size { 0 } else { MALLOCX_ALIGN(align) }
}

/// Returns the bytes of a heap that an object takes: those of its layout, rounded up to a size
/// class.
#[must_use]
pub fn object_bytes(layout: Layout) -> usize {
    usable(layout.size().max(1), layout.align())
}

/// Returns the size class of an object of `size` bytes.
pub(crate) fn usable(size: usize, align: usize) -> usize {
    // SAFETY: computes on numbers; the size is not zero.
    unsafe { nallocx(size, align_flag(size, align)) }
}

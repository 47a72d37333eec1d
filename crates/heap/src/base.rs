//! Where arenas keep their metadata in DRAM: blocks that are unmapped with their arena.
//!
//! By itself jemalloc keeps the blocks of an arena that ends (2 MiB of addresses at least) and
//! never uses them again, where it retains what it mapped. Nothing here takes a lock or allocates.

use std::ffi::{c_uint, c_void};
use std::ptr::{self, NonNull};

use terrace_sys::map;
use tikv_jemalloc_sys::extent_hooks_t;

/// The hooks that an arena is made with, for its metadata alone.
static HOOKS: extent_hooks_t = extent_hooks_t { alloc: Some(alloc), dalloc: Some(dalloc), ..NONE };

/// Hooks of which none is there: jemalloc calls no others than `alloc` and `dalloc` for metadata.
pub(crate) const NONE: extent_hooks_t = extent_hooks_t {
    alloc: None,
    dalloc: None,
    destroy: None,
    commit: None,
    decommit: None,
    purge_lazy: None,
    purge_forced: None,
    split: None,
    merge: None,
};

pub(crate) fn hooks() -> *mut extent_hooks_t {
    // jemalloc calls them, and changes nothing of them.
    ptr::from_ref(&HOOKS).cast_mut()
}

// SAFETY: jemalloc alone calls it.
unsafe extern "C" fn alloc(
    _hooks: *mut extent_hooks_t,
    new_address: *mut c_void,
    size: usize,
    align: usize,
    zero: *mut bool,
    commit: *mut bool,
    _arena: c_uint,
) -> *mut c_void {
    if !new_address.is_null() {
        return ptr::null_mut();
    }
    let Ok(block) = map::map_block(size, align) else { return ptr::null_mut() };
    // SAFETY: jemalloc passes two places of its own.
    unsafe { (*zero, *commit) = (true, true) };
    block.as_ptr().cast()
}

// SAFETY: jemalloc alone calls it.
unsafe extern "C" fn dalloc(
    _hooks: *mut extent_hooks_t,
    block: *mut c_void,
    size: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    let Some(block) = NonNull::new(block.cast()) else { return true };
    // SAFETY: jemalloc gives back whole blocks that `alloc` has mapped, once their arena is gone.
    unsafe { map::unmap_block(block, size) }.is_err()
}

//! Metadata of arenas in DRAM: blocks that are unmapped together with their arena.
//!
//! By default, where jemalloc retains its mappings, it keeps the blocks of a destroyed arena (2 MiB
//! of addresses at least) and never uses them again. Nothing here takes a lock or allocates.

use std::ffi::{c_uint, c_void};
use std::ptr::{self, NonNull};

use terrace_sys::map;
use tikv_jemalloc_sys::extent_hooks_t;

/// Hooks that an arena is created with, for its metadata alone.
static HOOKS: extent_hooks_t = extent_hooks_t { alloc: Some(alloc), dalloc: Some(dalloc), ..NONE };

/// Hooks without any function: for metadata, jemalloc calls `alloc` and `dalloc` alone.
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
    // jemalloc calls the hooks and never writes to them.
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
    // SAFETY: jemalloc passes pointers to two variables of its own.
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
    // SAFETY: jemalloc gives back whole blocks that `alloc` has mapped, after their arena was
    // destroyed.
    unsafe { map::unmap_block(block, size) }.is_err()
}

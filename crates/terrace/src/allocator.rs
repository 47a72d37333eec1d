//! Allocator of the program, configured to return freed memory to the kernel.
//!
//! Query operators allocate on the heap under grants of the ledger. Memory that they free must
//! leave the resident set soon, or the process would exceed its budget: jemalloc's background
//! thread returns unused pages after a tenth of a second.

use std::ffi::c_char;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc's options in its own syntax, ended by a zero byte.
const OPTIONS: &[u8] =
    b"background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:0,narenas:4,abort_conf:true\0";

/// A pointer that jemalloc reads once, before `main`.
#[repr(transparent)]
pub struct Options(*const c_char);

// SAFETY: the pointer is to a constant that is never written, so any thread may read it.
unsafe impl Sync for Options {}

// SAFETY: jemalloc declares this symbol as a pointer to a string ended by zero that it only reads;
// `Options` is a transparent wrapper of such a pointer to a constant, and no other symbol of this
// name exists in the program (the crate that binds jemalloc only declares it).
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_OPTIONS: Options = Options(OPTIONS.as_ptr().cast());

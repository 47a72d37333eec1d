//! SQLite's memory functions (`sqlite3_mem_methods`), served by a heap.

use std::alloc::Layout;
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use rusqlite::ffi;
use terrace_heap::{Backing, Heap, HeapConfig};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::{EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;

/// Bytes of addresses, more than SQLite will ever use.
const BYTES: u64 = 1 << 30;
const ALIGN: usize = 8;

/// Heap behind the functions, which receive no context from SQLite.
static HEAP: OnceLock<Heap> = OnceLock::new();

/// Installs a heap over a temporary file as SQLite's allocator; `cap_bytes` of it may be in DRAM.
pub fn install(cap_bytes: u64) -> Result<&'static Heap, Box<dyn Error>> {
    let file = DirectFile::temporary(&std::env::temp_dir())?;
    let blocks = Arc::new(FileBlocks::open(file, BYTES, EngineChoice::Auto)?);
    let source = Source { blocks, offset: 0, len: BYTES, contents: Contents::Blank };
    let config = RegionConfig {
        block_bytes: 64 << 10,
        ..RegionConfig::new("sqlite", Ledger::new(cap_bytes))
    };
    let region = Arc::new(Region::new(config, source)?);
    let made = Heap::new(HeapConfig::new("sqlite", Backing::region(region)))?;
    let heap = HEAP.get_or_init(|| made);
    let methods = ffi::sqlite3_mem_methods {
        xMalloc: Some(allocate),
        xFree: Some(free),
        xRealloc: Some(reallocate),
        xSize: Some(size),
        xRoundup: Some(round_up),
        xInit: Some(begin),
        xShutdown: Some(end),
        pAppData: ptr::null_mut(),
    };
    // SAFETY: SQLite copies the functions, which follow its rules; it returns an error if it is in
    // use already.
    let code = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
    if code == ffi::SQLITE_OK { Ok(heap) } else { Err("SQLite is in use already".into()) }
}

fn layout(bytes: c_int) -> Option<Layout> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
    Layout::from_size_align(bytes, ALIGN).ok()
}

// SAFETY: called by SQLite alone; requires nothing of its caller.
unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    let object = HEAP.get().zip(layout(bytes)).map(|(heap, layout)| heap.allocate(layout));
    object.and_then(Result::ok).map_or(ptr::null_mut(), |object| object.as_ptr().cast())
}

// SAFETY: called by SQLite alone, with a pointer that `allocate` returned.
unsafe extern "C" fn free(object: *mut c_void) {
    if let Some((heap, object)) = HEAP.get().zip(NonNull::new(object.cast())) {
        // SAFETY: SQLite frees an object that it allocated here, once.
        unsafe { heap.free(object) }
    }
}

// SAFETY: called by SQLite alone, with a pointer that `allocate` returned.
unsafe extern "C" fn reallocate(object: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(((heap, object), layout)) =
        HEAP.get().zip(NonNull::new(object.cast())).zip(layout(bytes))
    else {
        return ptr::null_mut();
    };
    // SAFETY: SQLite resizes an object that it allocated here, and does not use the old address
    // again.
    let object = unsafe { heap.resize(object, layout) };
    object.map_or(ptr::null_mut(), |object| object.as_ptr().cast())
}

// SAFETY: called by SQLite alone, with a pointer that `allocate` returned.
unsafe extern "C" fn size(object: *mut c_void) -> c_int {
    let Some((heap, object)) = HEAP.get().zip(NonNull::new(object.cast())) else { return 0 };
    // SAFETY: the object belongs to the heap and is not freed.
    c_int::try_from(unsafe { heap.usable_bytes(object) }).unwrap_or(c_int::MAX)
}

// SAFETY: computes on a number.
unsafe extern "C" fn round_up(bytes: c_int) -> c_int {
    bytes.checked_add(7).map_or(bytes, |bytes| bytes & !7)
}

// SAFETY: does nothing.
unsafe extern "C" fn begin(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

// SAFETY: does nothing.
unsafe extern "C" fn end(_: *mut c_void) {}

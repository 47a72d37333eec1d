//! Creating and closing heaps.

use std::ffi::c_char;
use std::sync::Arc;

use terrace_heap::{Backing, HeapConfig, Metadata, Retain};

use crate::arguments::{self, or, place, shared, take_handle};
use crate::ledger::Ledger;
use crate::region::Region;
use crate::status::{Failure, Status, attempt, status};

/// An allocator whose memory is DRAM, a memory node, or a part of a region.
///
/// All functions may be called from any thread, except terrace_heap_reset and terrace_heap_close
/// during another call with the same handle.
pub struct Heap {
    pub(crate) heap: terrace_heap::Heap,
}

/// Location of a heap's metadata, for terrace_heap_options.metadata.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum MetadataChoice {
    /// In DRAM, regardless of the data: allocations do not touch a slow tier.
    Separate = 0,
    /// In the heap's memory, with the data.
    Together = 1,
}

/// A flag of terrace_heap_options: the heap takes memory as each request needs it and returns freed
/// memory, instead of taking ever larger pieces and keeping them.
pub const HEAP_RETAIN_OFF: u32 = 1;
/// A flag of terrace_heap_options: threads do not cache freed objects for their next requests.
pub const HEAP_THREAD_CACHES_OFF: u32 = 2;
/// Value of terrace_heap_options.decay_ms: freed pages are kept forever.
pub const HEAP_KEEP: i32 = -1;

/// Options of a heap. Zero, or NULL, selects the default of every field: begin with
/// terrace_heap_options_default or zeroed memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HeapOptions {
    /// Name in errors and statistics. NULL: "heap".
    pub name: *const c_char,
    /// Budget that memory in use counts against; an error for a heap over a region, which counts
    /// its blocks itself. NULL: none.
    pub ledger: *const Ledger,
    /// Maximum bytes of a piece that is taken ahead of need, at least 4096. 0: 8388608.
    pub growth_bytes_max: u64,
    /// Location of the metadata, a terrace_metadata.
    pub metadata: u32,
    /// Time that freed pages are kept before they are returned, in milliseconds. 0: 1000;
    /// TERRACE_HEAP_KEEP: forever.
    pub decay_ms: i32,
    /// Sum of any of TERRACE_HEAP_RETAIN_OFF and TERRACE_HEAP_THREAD_CACHES_OFF.
    pub flags: u32,
}

impl HeapOptions {
    const USUAL: Self = Self {
        name: std::ptr::null(),
        ledger: std::ptr::null(),
        growth_bytes_max: 0,
        metadata: MetadataChoice::Separate as u32,
        decay_ms: 0,
        flags: 0,
    };

    /// # Safety
    /// Each pointer of the options is NULL or valid for its type, and its target does not change
    /// during the call.
    unsafe fn config(&self, memory: Backing) -> Result<HeapConfig, Failure> {
        // SAFETY: the caller's promise, for both.
        let (name, ledger) =
            unsafe { (arguments::name(self.name, "heap"), arguments::ledger(self.ledger)) };
        let wrong = |what: String| Err(Failure::invalid(format!("heap {name}: {what}")));
        let metadata = match self.metadata {
            0 => Metadata::Separate,
            1 => Metadata::Together,
            other => return wrong(format!("{other} is no terrace_metadata")),
        };
        if self.flags & !(HEAP_RETAIN_OFF | HEAP_THREAD_CACHES_OFF) != 0 {
            return wrong(format!("flags {:#x} are not all known", self.flags));
        }
        let retain = match (self.flags & HEAP_RETAIN_OFF != 0, Retain::default()) {
            (true, _) => Retain::Off,
            (false, Retain::On { growth_bytes_max: usual }) => {
                Retain::On { growth_bytes_max: or(self.growth_bytes_max, usual) }
            }
            (false, off) => off,
        };
        let usual = HeapConfig::new(name.as_str(), memory);
        let decay_ms = match self.decay_ms {
            HEAP_KEEP => None,
            0 => usual.decay_ms,
            ms => match u32::try_from(ms) {
                Ok(ms) => Some(ms),
                Err(_) => return wrong(format!("decay_ms {ms}: -1 keeps pages for good")),
            },
        };
        let thread_caches = self.flags & HEAP_THREAD_CACHES_OFF == 0;
        Ok(HeapConfig { metadata, retain, thread_caches, decay_ms, ledger, ..usual })
    }
}

/// Returns the default options of a heap: all zero.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_heap_options_default() -> HeapOptions {
    HeapOptions::USUAL
}

/// Creates a heap over a given memory.
///
/// # Safety
/// `options` is NULL, or leads to options whose pointers are valid; `out` is NULL or leads to room
/// for a pointer.
unsafe fn start(
    memory: Backing,
    options: *const HeapOptions,
    out: *mut *mut Heap,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise, for both.
    let (out, config) = unsafe {
        (place(out, "out")?, options.as_ref().unwrap_or(&HeapOptions::USUAL).config(memory)?)
    };
    out.put_handle(Heap { heap: terrace_heap::Heap::new(config)? });
    Ok(())
}

/// Creates a heap in DRAM and stores its handle in *out. The size in bytes is that of its address
/// space, at least 8388608, in pages of 4096, which take memory as they are used.
///
/// TERRACE_STATUS_INVALID for invalid options; TERRACE_STATUS_NO_ROOM if address space is
/// exhausted, or if the process has too many heaps (about 4,000).
///
/// # Safety
/// options is NULL or points to options, whose name is NULL or a string and whose ledger is NULL or
/// a ledger; out is NULL or points to space for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_dram(
    bytes: usize,
    options: *const HeapOptions,
    out: *mut *mut Heap,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| unsafe { start(Backing::Dram { bytes }, options, out) })
}

/// Creates a heap in the memory of one NUMA node and stores its handle in *out; otherwise as
/// terrace_heap_dram.
///
/// TERRACE_STATUS_INVALID if the node does not exist.
///
/// # Safety
/// As for terrace_heap_dram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_node(
    node: u32,
    bytes: usize,
    options: *const HeapOptions,
    out: *mut *mut Heap,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| unsafe { start(Backing::Node { node, bytes }, options, out) })
}

/// Creates a heap in a part of a region and stores its handle in *out. The part begins at the
/// offset and has the given bytes, at least 8388608, both multiples of 4096; 0 bytes mean all up to
/// the region's end.
///
/// No other code may use the part; another heap or store that requests bytes of it is refused. The
/// heap keeps the region alive: its handle may be closed. The contents of objects are written to
/// the region's file over time, but a heap cannot be reopened from it.
///
/// Fails as terrace_heap_dram does, and with TERRACE_STATUS_INVALID if bytes of the part are in
/// use. With metadata together, the region's cap must be at least 4 MiB and a block for each of its
/// pagers.
///
/// # Safety
/// The region is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; otherwise as for terrace_heap_dram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_region(
    region: *const Region,
    offset: usize,
    bytes: usize,
    options: *const HeapOptions,
    out: *mut *mut Heap,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let region = Arc::clone(&unsafe { shared(region, "region") }?.region);
        let rest = region.len().saturating_sub(offset);
        let bytes = if bytes == 0 { rest } else { bytes };
        // SAFETY: the caller's promise.
        unsafe { start(Backing::Region { region, offset, bytes }, options, out) }
    })
}

/// Destroys a heap and frees every object of it at once; NULL is allowed.
///
/// Every pointer that came from the heap is invalid afterwards: reading, writing or freeing one is
/// as wrong as after free(), and may reach memory that has another owner by then. Containers that
/// use the heap must be destroyed before it. No other thread may be in a call with the handle.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// is not used again, nor any pointer that came from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_close(heap: *mut Heap) {
    let _ = attempt(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_handle(heap) });
        Ok(())
    });
}

/// Frees every object at once and keeps the heap. Pointers become invalid as by terrace_heap_close.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed; no pointer that came from it is used again, and no other thread is in a call
/// with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_reset(heap: *const Heap) -> Status {
    // SAFETY: the caller's promise, for both.
    status(|| Ok(unsafe { shared(heap, "heap")?.heap.reset() }?))
}

/// Returns free memory: the objects that this thread caches, and the free memory that the heap
/// keeps.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_trim(heap: *const Heap) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe { shared(heap, "heap") }?.heap.trim();
        Ok(())
    })
}

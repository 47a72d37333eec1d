//! The extent hooks: how an arena takes memory from a heap's range.
//!
//! jemalloc calls the hooks while it holds locks of its own, from any thread that allocates. A hook
//! that returns true refuses. Splitting and merging are always granted: an arena that may not split
//! discards the part of each extent that it does not need, which exhausts any range
//! (`docs/design/heap.md`).

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use terrace_ledger::Consumer;
use terrace_region::Region;
use terrace_sys::map::Mapping;
use terrace_sys::size::{PAGE_BYTES, to_u64};
use terrace_sys::sync::lock;
use tikv_jemalloc_sys::extent_hooks_t;

use crate::base;
use crate::blocks::UsedBlocks;
use crate::extents::Extents;

/// Address range of one arena, and the state of its extent hooks. jemalloc is given the address of
/// `hooks`, which is also the address of the whole structure.
#[repr(C)]
pub(crate) struct Range {
    hooks: extent_hooks_t,
    /// Hooks for an arena's metadata that lie in the range; they directly follow `hooks`, see
    /// [`metadata_hooks`].
    metadata_hooks: extent_hooks_t,
    start: *mut u8,
    len: usize,
    memory: Memory,
    extents: Mutex<Extents>,
    /// True if the arena keeps its free extents; they return to the range otherwise.
    keeps: bool,
    consumer: Option<Consumer>,
    /// Bytes of the last pages that the budget refused, 0 after it granted some. Extents take no
    /// addresses while the budget has no room for these bytes, see [`Range::is_broke`].
    unpaid: AtomicUsize,
    /// Bytes of pages that the arena uses, and the offset in bytes of the end of the last page that
    /// it ever used.
    used_bytes: AtomicUsize,
    used_end: AtomicUsize,
    /// Bytes of metadata that lie in the range, a part of `used_bytes`.
    metadata_bytes: AtomicUsize,
    /// Length in bytes of the arena's first extent, see [`Range::begin`]; 0 once that extent's
    /// pages are decommitted.
    first_bytes: AtomicUsize,
    /// True once the arena has taken that extent; its pages are neither counted nor charged.
    has_first: AtomicBool,
    /// Extents requested by the arena, and requests for extents or pages that were refused.
    pub(crate) calls: AtomicU64,
    pub(crate) refusals: AtomicU64,
}

/// Memory behind a range.
#[derive(Debug)]
pub(crate) enum Memory {
    /// A mapping of the heap's own.
    Own(Mapping),
    /// A part of a region.
    Region(UsedBlocks),
}

// SAFETY: the pointer is an address of memory that lives as long as the heap, and is handed out in
// parts that do not overlap; all other fields are protected by locks or are atomics.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").field("start", &self.start).field("len", &self.len).finish()
    }
}

impl Range {
    pub(crate) fn new(
        (start, len): (*mut u8, usize),
        memory: Memory,
        keeps: bool,
        consumer: Option<Consumer>,
    ) -> Self {
        let hooks = extent_hooks_t {
            alloc: Some(alloc),
            dalloc: Some(dalloc),
            destroy: Some(destroy),
            commit: Some(commit),
            decommit: Some(decommit),
            purge_lazy: None,
            purge_forced: None,
            split: Some(split),
            merge: Some(merge),
        };
        let metadata_hooks = extent_hooks_t {
            alloc: Some(alloc_metadata),
            dalloc: Some(dalloc_metadata),
            ..base::NONE
        };
        let extents = Mutex::new(Extents::new(len / PAGE_BYTES));
        Self {
            hooks,
            metadata_hooks,
            start,
            len,
            memory,
            extents,
            keeps,
            consumer,
            unpaid: AtomicUsize::new(0),
            used_bytes: AtomicUsize::new(0),
            used_end: AtomicUsize::new(0),
            metadata_bytes: AtomicUsize::new(0),
            first_bytes: AtomicUsize::new(0),
            has_first: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// Returns the region that the range is a part of, if any.
    pub(crate) fn region(&self) -> Option<&Arc<Region>> {
        match &self.memory {
            Memory::Own(_) => None,
            Memory::Region(blocks) => Some(blocks.region()),
        }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Releases all pages of a range over a region. The arena no longer exists.
    pub(crate) fn end(&self) {
        if let Memory::Region(blocks) = &self.memory {
            blocks.end();
        }
    }

    /// Returns the bytes of pages in use, and the offset in bytes of the end of the last page that
    /// was ever used.
    pub(crate) fn used(&self) -> (usize, usize) {
        let [used, end] = [&self.used_bytes, &self.used_end];
        (used.load(Ordering::Relaxed), end.load(Ordering::Relaxed))
    }

    /// Returns the bytes of metadata that lie in the range, a part of those in use.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.metadata_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the free pages at the end of the range.
    pub(crate) fn room(&self) -> usize {
        lock(&self.extents).room() * PAGE_BYTES
    }

    /// Announces the arena's first extent, of `bytes` bytes, which the arena takes and frees at
    /// once. Neither is charged to the budget, and the addresses of the extent stay with the arena.
    pub(crate) fn begin(&self, bytes: usize) {
        self.first_bytes.store(bytes, Ordering::Relaxed);
    }

    /// True if the arena has taken its first extent and decommitted its pages, or takes no such
    /// extent.
    pub(crate) fn has_begun(&self) -> bool {
        self.first_bytes.load(Ordering::Acquire) == 0
    }

    /// True if `len` is the length of the first extent, and that extent is not taken yet.
    fn awaits_first(&self, len: usize) -> bool {
        len == self.first_bytes.load(Ordering::Relaxed) && !self.has_first.load(Ordering::Relaxed)
    }

    /// Marks the first extent as taken if `len` is its length; true if this call did so.
    fn takes_first(&self, len: usize) -> bool {
        self.awaits_first(len) && !self.has_first.swap(true, Ordering::Relaxed)
    }

    /// Ends the exemption of the first extent if `len` is its length and the extent is taken; true
    /// if this call did so.
    fn gives_first(&self, len: usize) -> bool {
        let is_first = len == self.first_bytes.load(Ordering::Relaxed);
        let is_given = is_first && self.has_first.load(Ordering::Relaxed);
        if is_given {
            self.first_bytes.store(0, Ordering::Release);
        }
        is_given
    }

    /// Counts pages as used, and charges their bytes to the budget, if there is one; false if the
    /// budget has no room.
    fn pay(&self, page: usize, bytes: usize) -> bool {
        if let Some(consumer) = &self.consumer {
            let is_paid = consumer.try_grow(to_u64(bytes)).is_ok();
            self.unpaid.store(if is_paid { 0 } else { bytes }, Ordering::Relaxed);
            if !is_paid {
                return false;
            }
        }
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used_end.fetch_max(page * PAGE_BYTES + bytes, Ordering::Relaxed);
        true
    }

    /// True if the budget has no room for the pages of an extent of `bytes` bytes, or for the last
    /// pages that it refused. Without this check the arena would take the addresses all the same,
    /// and more at each attempt: it keeps such extents, in parts that it cannot merge.
    fn is_broke(&self, bytes: usize) -> bool {
        let needed = to_u64(bytes.max(self.unpaid.load(Ordering::Relaxed)));
        self.consumer.as_ref().is_some_and(|consumer| consumer.ledger().available() < needed)
    }

    fn repay(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(consumer) = &self.consumer {
            consumer.shrink(to_u64(bytes));
        }
    }

    fn refuse(&self) -> *mut c_void {
        // The arena may request larger extents before its first one; such refusals are not counted.
        self.refusals.fetch_add(u64::from(self.has_begun()), Ordering::Relaxed);
        ptr::null_mut()
    }

    /// Takes an extent, whose pages are charged to the budget if `commit` is set.
    fn alloc(&self, size: usize, align: usize, zero: &mut bool, commit: &mut bool) -> *mut c_void {
        self.calls.fetch_add(1, Ordering::Relaxed);
        debug_assert!(*commit || !*zero, "zeros without pages");
        let is_first = self.awaits_first(size);
        if !is_first && (!self.has_begun() || !*commit && self.is_broke(size)) {
            return self.refuse();
        }
        let (count, align) = (size.div_ceil(PAGE_BYTES), (align / PAGE_BYTES).max(1));
        let first = self.start.addr() / PAGE_BYTES;
        let phase = (align - first % align) % align;
        let page = lock(&self.extents).take(count, align, phase);
        let Some(page) = page else { return self.refuse() };
        let place = self.start.wrapping_add(page * PAGE_BYTES);
        if *commit && self.takes_first(size) {
            return place.cast();
        }
        if *commit && !self.pay(page, size) {
            lock(&self.extents).give(page, count);
            return self.refuse();
        }
        match &self.memory {
            // Pages of a mapping read as zero, both fresh and decommitted ones. Uncommitted pages
            // are charged later.
            Memory::Own(_) => *zero = true,
            Memory::Region(blocks) => {
                if *commit {
                    blocks.take(page, count);
                }
                if *zero {
                    // SAFETY: the extent lies in the range, and no other owner has it: it was just
                    // taken.
                    unsafe { place.write_bytes(0, size) };
                }
            }
        }
        place.cast()
    }

    /// Returns the number of the page at an address of the range.
    fn page(&self, place: *mut u8) -> usize {
        (place.addr() - self.start.addr()) / PAGE_BYTES
    }

    /// Charges the pages of a part to the budget before the arena uses them; false if the budget
    /// refuses.
    fn take_pages(&self, place: *mut u8, len: usize) -> bool {
        if self.takes_first(len) {
            return true;
        }
        if !self.pay(self.page(place), len) {
            self.refuse();
            return false;
        }
        if let Memory::Region(blocks) = &self.memory {
            blocks.take(self.page(place), len / PAGE_BYTES);
        }
        true
    }

    /// Returns the pages of a part to the kernel or the region, and their bytes to the budget;
    /// false if the kernel keeps the pages.
    fn drop_pages(&self, place: *mut u8, len: usize) -> bool {
        if self.gives_first(len) {
            return true;
        }
        match &self.memory {
            Memory::Own(mapping) => {
                if mapping.decommit(place.addr() - self.start.addr(), len).is_err() {
                    return false;
                }
            }
            Memory::Region(blocks) => blocks.give(self.page(place), len / PAGE_BYTES),
        }
        self.repay(len);
        true
    }

    /// Returns an extent to the range, and its pages if it has any; false if the kernel keeps the
    /// pages, and the extent then stays taken.
    fn give(&self, place: *mut u8, size: usize, committed: bool) -> bool {
        let done = !committed || self.drop_pages(place, size);
        if done {
            lock(&self.extents).give(self.page(place), size / PAGE_BYTES);
        }
        done
    }
}

/// Returns the range that hooks belong to.
///
/// # Safety
/// The hooks are those of a `Range` that lives.
unsafe fn range<'a>(hooks: *mut extent_hooks_t) -> &'a Range {
    // SAFETY: the hooks are the first field of the range, whose own address jemalloc was given; a
    // heap keeps it in its place until its arena is destroyed.
    unsafe { &*hooks.cast::<Range>() }
}

// SAFETY: jemalloc alone calls it, with hooks of a range that lives.
unsafe extern "C" fn alloc(
    hooks: *mut extent_hooks_t,
    new_address: *mut c_void,
    size: usize,
    align: usize,
    zero: *mut bool,
    commit: *mut bool,
    _arena: c_uint,
) -> *mut c_void {
    if !new_address.is_null() {
        // The arena requests an extent at an address of its choice, and handles a refusal.
        return ptr::null_mut();
    }
    // SAFETY: jemalloc passes the hooks it was given, and two places of its own.
    unsafe { range(hooks).alloc(size, align, &mut *zero, &mut *commit) }
}

/// Returns the hooks for metadata of the range that `hooks` belongs to.
pub(crate) fn metadata_hooks(hooks: *mut extent_hooks_t) -> *mut extent_hooks_t {
    hooks.wrapping_add(1)
}

/// Returns the hooks for data of the range that `metadata_hooks` belongs to.
fn data_hooks(metadata_hooks: *mut extent_hooks_t) -> *mut extent_hooks_t {
    metadata_hooks.wrapping_sub(1)
}

// SAFETY: jemalloc alone calls it, with hooks for metadata of a range that lives.
unsafe extern "C" fn alloc_metadata(
    hooks: *mut extent_hooks_t,
    new_address: *mut c_void,
    size: usize,
    align: usize,
    zero: *mut bool,
    commit: *mut bool,
    arena: c_uint,
) -> *mut c_void {
    let hooks = data_hooks(hooks);
    // SAFETY: the caller's promise.
    let place = unsafe { alloc(hooks, new_address, size, align, zero, commit, arena) };
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { range(hooks) }.metadata_bytes.fetch_add(size, Ordering::Relaxed);
    }
    place
}

// SAFETY: jemalloc alone calls it, with hooks for metadata of a range that lives, after the arena
// was destroyed.
unsafe extern "C" fn dalloc_metadata(
    hooks: *mut extent_hooks_t,
    place: *mut c_void,
    size: usize,
    committed: bool,
    _arena: c_uint,
) -> bool {
    // SAFETY: the caller's promise.
    !unsafe { range(data_hooks(hooks)) }.give(place.cast(), size, committed)
}

// SAFETY: jemalloc alone calls it, with hooks of a range that lives.
unsafe extern "C" fn dalloc(
    hooks: *mut extent_hooks_t,
    place: *mut c_void,
    size: usize,
    committed: bool,
    _arena: c_uint,
) -> bool {
    // SAFETY: as in `alloc`.
    let range = unsafe { range(hooks) };
    range.keeps || !range.give(place.cast(), size, committed)
}

// SAFETY: jemalloc alone calls it, with hooks of a range that lives.
unsafe extern "C" fn destroy(
    hooks: *mut extent_hooks_t,
    place: *mut c_void,
    size: usize,
    committed: bool,
    _arena: c_uint,
) {
    // SAFETY: as in `alloc`.
    let range = unsafe { range(hooks) };
    range.give(place.cast(), size, committed);
}

// SAFETY: jemalloc alone calls it, with hooks of a range that lives.
unsafe extern "C" fn commit(
    hooks: *mut extent_hooks_t,
    place: *mut c_void,
    _size: usize,
    offset: usize,
    len: usize,
    _arena: c_uint,
) -> bool {
    // SAFETY: as in `alloc`.
    !unsafe { range(hooks) }.take_pages(place.cast::<u8>().wrapping_add(offset), len)
}

// SAFETY: jemalloc alone calls it, with hooks of a range that lives.
unsafe extern "C" fn decommit(
    hooks: *mut extent_hooks_t,
    place: *mut c_void,
    _size: usize,
    offset: usize,
    len: usize,
    _arena: c_uint,
) -> bool {
    // SAFETY: as in `alloc`.
    !unsafe { range(hooks) }.drop_pages(place.cast::<u8>().wrapping_add(offset), len)
}

// SAFETY: jemalloc alone calls it, with hooks of a range that lives.
unsafe extern "C" fn split(
    _hooks: *mut extent_hooks_t,
    _place: *mut c_void,
    _size: usize,
    _first: usize,
    _second: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    false
}

// SAFETY: jemalloc alone calls it, with hooks of a range that lives.
unsafe extern "C" fn merge(
    _hooks: *mut extent_hooks_t,
    _first: *mut c_void,
    _first_size: usize,
    _second: *mut c_void,
    _second_size: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    false
}

//! The [`Heap`] type: allocation, release and statistics.

use std::alloc::Layout;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use terrace_region::Region;
use tikv_jemalloc_sys::{
    MALLOCX_ARENA, MALLOCX_TCACHE_NONE, MALLOCX_ZERO, dallocx, mallocx, rallocx, sallocx, sdallocx,
    xallocx,
};

use crate::cache;
use crate::config::HeapConfig;
use crate::error::{HeapError, refused};
use crate::registry;
use crate::size_class::{align_flag, usable};
use crate::state::Inner;
use crate::stats::HeapStats;

/// Maximum wait for pages that other threads are giving back, and the pause between two attempts.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(50);

/// An allocator over one range of memory. See the crate's documentation.
///
/// A clone is the same heap; dropping the last clone frees every object at once. Each collection
/// holds a clone, so its memory outlives it.
#[derive(Clone, Debug)]
pub struct Heap {
    inner: Arc<Inner>,
}

impl Heap {
    /// Creates a heap.
    ///
    /// # Errors
    /// [`HeapError::Config`]; [`HeapError::System`] when the kernel refuses addresses or the node's
    /// memory; [`HeapError::Region`] when a region cannot hold the arena's first block, or another
    /// owner holds bytes of the part; [`HeapError::Arena`] when the allocator refuses.
    pub fn new(config: HeapConfig) -> Result<Self, HeapError> {
        let inner = Arc::new(Inner::new(config)?);
        registry::register(&inner);
        Ok(Self { inner })
    }

    /// Returns the heap's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the region that holds the heap's bytes, if any.
    #[must_use]
    pub fn region(&self) -> Option<&Arc<Region>> {
        self.inner.range.region()
    }

    /// Returns the heap's range of addresses: the first address, and the length in bytes.
    #[must_use]
    pub fn addresses(&self) -> (*mut u8, usize) {
        (self.inner.range.start(), self.inner.range.len())
    }

    /// True if an address lies in the heap's range.
    #[must_use]
    pub fn contains(&self, address: *const u8) -> bool {
        let (start, len) = self.addresses();
        address.addr().wrapping_sub(start.addr()) < len
    }

    /// Allocates an object. A layout of size 0 yields a dangling pointer, which need not be freed.
    ///
    /// # Errors
    /// [`HeapError::NoRoom`].
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, HeapError> {
        self.take(layout).ok_or_else(|| self.no_room(layout))
    }

    /// Allocates an object whose bytes are zero.
    ///
    /// # Errors
    /// As [`Heap::allocate`].
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, HeapError> {
        self.take_zeroed(layout).ok_or_else(|| self.no_room(layout))
    }

    fn no_room(&self, layout: Layout) -> HeapError {
        HeapError::NoRoom { heap: self.inner.name.clone(), bytes: layout.size() }
    }

    pub(crate) fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.take_by(layout, self.flags(layout))
    }

    pub(crate) fn take_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        if self.region().is_none() {
            return self.take_by(layout, self.flags(layout) | MALLOCX_ZERO);
        }
        // jemalloc assumes that pages it gave back read as zero; those of a region may keep their
        // contents.
        let object = self.take(layout)?;
        // SAFETY: the object has `layout.size()` bytes, and no other code has its address.
        unsafe { object.write_bytes(0, layout.size()) };
        Some(object)
    }

    fn take_by(&self, layout: Layout, flags: c_int) -> Option<NonNull<u8>> {
        if layout.size() == 0 {
            return Some(layout.dangling_ptr());
        }
        // SAFETY: the size is not zero; the flags name a live arena, and a cache of it that belongs
        // to this thread.
        let take = || NonNull::new(unsafe { mallocx(layout.size(), flags) }.cast());
        take().or_else(|| self.take_from_trimmed(layout.size(), take))
    }

    /// Repeats an allocation after free memory was given back: freed pages kept for reuse are
    /// fragmented, and count against the budget. Pages that another thread, one of jemalloc's
    /// included, is giving back are unavailable until it has finished.
    #[cold]
    fn take_from_trimmed(
        &self,
        bytes: usize,
        take: impl Fn() -> Option<NonNull<u8>>,
    ) -> Option<NonNull<u8>> {
        if bytes > self.inner.range.len() {
            return None;
        }
        let start = Instant::now();
        loop {
            self.trim();
            let is_all_back = self.inner.is_all_back() || start.elapsed() > PATIENCE;
            let taken = take();
            if taken.is_some() || is_all_back {
                return taken;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Frees an object, from any thread.
    ///
    /// # Safety
    /// The object belongs to this heap, was allocated or last changed with this layout, and is not
    /// used afterwards.
    pub unsafe fn deallocate(&self, object: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        debug_assert!(self.contains(object.as_ptr()), "freed in another heap");
        // SAFETY: the caller's promise; the flags are those of the allocation, except for the
        // cache, which is this thread's.
        unsafe { sdallocx(object.as_ptr().cast(), layout.size(), self.flags(layout)) }
    }

    /// Changes the length of an object, in place if possible; the bytes up to the smaller of both
    /// lengths are kept.
    ///
    /// # Errors
    /// As [`Heap::allocate`]; the object is then as it was.
    ///
    /// # Safety
    /// As [`Heap::deallocate`] with `old`; after success the old address is invalid.
    pub unsafe fn reallocate(
        &self,
        object: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<u8>, HeapError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        if new.size() == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.deallocate(object, old) };
            return Ok(new.dangling_ptr());
        }
        // SAFETY: the caller's promise; the new size is not zero.
        unsafe { self.resize(object, new) }
    }

    /// Frees an object without its layout; otherwise as [`Heap::deallocate`].
    ///
    /// # Safety
    /// The object belongs to this heap, was not allocated with size 0, and is not used afterwards.
    pub unsafe fn free(&self, object: NonNull<u8>) {
        debug_assert!(self.contains(object.as_ptr()), "freed in another heap");
        let flags = self.flags(Layout::new::<u8>());
        // SAFETY: the caller's promise; the flags name the arena and this thread's cache of it.
        unsafe { dallocx(object.as_ptr().cast(), flags) }
    }

    /// Changes the length of an object without its old layout; otherwise as [`Heap::reallocate`].
    ///
    /// # Errors
    /// As [`Heap::allocate`]; the object is then as it was.
    ///
    /// # Safety
    /// As [`Heap::free`], and the size of `new` is not 0; after success the old address is invalid.
    pub unsafe fn resize(
        &self,
        object: NonNull<u8>,
        new: Layout,
    ) -> Result<NonNull<u8>, HeapError> {
        debug_assert!(new.size() > 0, "an object without bytes");
        let resize = || {
            // SAFETY: the caller's promise; a failed attempt leaves the object as it was.
            let place = unsafe { rallocx(object.as_ptr().cast(), new.size(), self.flags(new)) };
            NonNull::new(place.cast())
        };
        let resized = resize().or_else(|| self.take_from_trimmed(new.size(), resize));
        resized.ok_or_else(|| self.no_room(new))
    }

    /// Returns the usable bytes of an object, which may be more than were requested.
    ///
    /// # Safety
    /// The object belongs to this heap, is not freed, and was not allocated with size 0.
    pub unsafe fn usable_bytes(&self, object: NonNull<u8>) -> usize {
        // SAFETY: the caller's promise.
        unsafe { sallocx(object.as_ptr().cast(), 0) }
    }

    /// Changes the length of an object in place; returns false, and changes nothing, if that is
    /// impossible.
    ///
    /// # Safety
    /// As [`Heap::deallocate`]; after success its layout is that of `size` bytes.
    pub unsafe fn resize_in_place(&self, object: NonNull<u8>, layout: Layout, size: usize) -> bool {
        if layout.size() == 0 || size == 0 {
            return layout.size() == size;
        }
        // SAFETY: the caller's promise; neither size is zero.
        let has = unsafe { xallocx(object.as_ptr().cast(), size, 0, self.flags(layout)) };
        // The size class must be the one that an object of that size is freed with.
        has >= size && has == usable(size, layout.align())
    }

    /// Gives free memory back: the objects in this thread's cache, and the free pages of the arena.
    pub fn trim(&self) {
        cache::flush(self.inner.life());
        if let Err(refused) = self.inner.arena.purge() {
            tracing::warn!(key = refused.key, error = %refused.source, "nothing given back");
        }
    }

    /// Gives back the pages whose decay time has passed. Calls that allocate and free do so as
    /// well, every now and then; an idle heap needs this call.
    pub fn decay(&self) {
        if let Err(refused) = self.inner.arena.decay() {
            tracing::warn!(key = refused.key, error = %refused.source, "nothing given back");
        }
    }

    /// Frees every object at once.
    ///
    /// # Errors
    /// [`HeapError::Arena`] when the allocator refuses.
    ///
    /// # Safety
    /// No object of the heap is used afterwards, and no other thread is in a call of the heap.
    pub unsafe fn reset(&self) -> Result<(), HeapError> {
        let inner = &self.inner;
        inner.end_caches();
        inner.arena.reset().map_err(refused(&inner.name))
    }

    /// Returns the heap's statistics.
    ///
    /// # Errors
    /// [`HeapError::Arena`] when the allocator refuses its statistics.
    pub fn stats(&self) -> Result<HeapStats, HeapError> {
        self.inner.stats()
    }

    fn flags(&self, layout: Layout) -> c_int {
        let inner = &self.inner;
        let cache = match inner.thread_caches {
            true => cache::flags(inner.life(), inner.caches()),
            false => MALLOCX_TCACHE_NONE,
        };
        align_flag(layout.size(), layout.align()) | MALLOCX_ARENA(inner.arena.index()) | cache
    }
}

/// Returns the statistics of some heaps, in their order. jemalloc refreshes the statistics of all
/// arenas of the process at once; this function refreshes them once, [`Heap::stats`] does for each
/// heap.
///
/// # Errors
/// As [`Heap::stats`].
pub fn stats_of<'a>(
    heaps: impl IntoIterator<Item = &'a Heap>,
) -> Result<Vec<HeapStats>, HeapError> {
    registry::taken_once(heaps.into_iter().map(|heap| &heap.inner)).collect()
}

#[cfg(test)]
mod tests {
    use terrace_region::Backing;

    use super::*;
    use crate::arena;

    /// jemalloc does not destroy an arena that threads are bound to, and may still call its hooks.
    #[test]
    fn the_hooks_of_an_arena_that_stays_stay_too() {
        let memory = Backing::Dram { bytes: 64 << 20 };
        let heap = Heap::new(HeapConfig::new("stays", memory)).expect("a heap");
        let (range, arena) = (Arc::downgrade(&heap.inner.range), heap.inner.arena.index());
        arena::bind_thread(arena);
        drop(heap);
        let range = range.upgrade().expect("it is there");
        let flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
        // SAFETY: the size is not zero; the arena and its hooks still exist.
        let object = unsafe { mallocx(1 << 20, flags) };
        assert!(object.addr().wrapping_sub(range.start().addr()) < range.len());
        // SAFETY: allocated above with these flags.
        unsafe { dallocx(object, flags) };
        arena::bind_thread(0);
    }
}

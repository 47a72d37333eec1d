//! The [`Heap`] type: allocation, statistics and set-up of its arena.

use std::alloc::Layout;
use std::ffi::c_int;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use terrace_ledger::Class;
use terrace_region::{Backing, Part, Pin, Region, RegionError};
use terrace_sys::map::Mapping;
use terrace_sys::size::{PAGE_BYTES, to_u64};
use tikv_jemalloc_sys::{
    MALLOCX_ALIGN, MALLOCX_ARENA, MALLOCX_TCACHE_NONE, MALLOCX_ZERO, dallocx, mallocx, rallocx,
    sallocx, sdallocx, xallocx,
};

use crate::arena::{self, Arena, Refused};
use crate::blocks::UsedBlocks;
use crate::cache::{self, CachesOfHeap};
use crate::config::{HeapConfig, Metadata, Retain};
use crate::error::HeapError;
use crate::hooks::{self, Memory, Range};
use crate::stats::{self, HeapStats};

/// Alignment that every object of at least this many bytes has without a request.
const ALIGN_ALWAYS: usize = 16;
/// Divisor for a range that also holds metadata: one part of the range in this many is left out of
/// the arena's first extent. Metadata of 128 bytes per page take a quarter of that part.
const TOGETHER_SHARE: usize = 8;
/// Maximum number of purges of an arena while another thread is purging it.
const PURGES_MAX: usize = 10_000;
/// Maximum wait for pages that other threads are giving back, and the pause between two attempts.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(50);
/// Bytes of a region that are pinned while the arena's first block is written there.
const FIRST_BLOCK_BYTES: usize = 4 << 20;

/// An allocator over one range of memory. See the crate's documentation.
///
/// A clone is the same heap; dropping the last clone frees every object at once. Each collection
/// holds a clone, so its memory outlives it.
#[derive(Clone, Debug)]
pub struct Heap {
    inner: Arc<Inner>,
}

/// State shared by the clones of a heap.
#[derive(Debug)]
pub(crate) struct Inner {
    name: String,
    kind: &'static str,
    metadata: Metadata,
    arena: Arena,
    /// Range with the hooks that jemalloc calls; it stays at its address until the arena is
    /// destroyed.
    range: Arc<Range>,
    thread_caches: bool,
    /// Number of the heap's life, unique in the process; a reset begins a new life.
    life: AtomicU64,
    caches: Arc<CachesOfHeap>,
}

static LIVES: AtomicU64 = AtomicU64::new(1);

impl Heap {
    /// Creates a heap.
    ///
    /// # Errors
    /// [`HeapError::Config`]; [`HeapError::System`] when the kernel refuses addresses or the node's
    /// memory; [`HeapError::Region`] when a region cannot hold the arena's first block, or another
    /// owner holds bytes of the part; [`HeapError::Arena`] when the allocator refuses.
    pub fn new(config: HeapConfig) -> Result<Self, HeapError> {
        config.check()?;
        let range = Arc::new(range(&config)?);
        let together = config.metadata == Metadata::Together;
        // A pager thread must never block on an allocator lock that is held by a thread with a
        // pending page fault.
        let _first = if together { first_block(&config)? } else { None };
        let data = Arc::as_ptr(&range).cast_mut().cast();
        let metadata = together.then(|| hooks::metadata_hooks(data));
        // SAFETY: the range begins with its hooks, and its `Arc` keeps it in place until the drop
        // of `Inner` destroys the arena, or for good if that fails. The range changes through its
        // lock and its atomics only.
        let arena = unsafe { Arena::create(metadata) };
        let arena = arena.map_err(refused(&config.name))?;
        let inner = Inner {
            kind: config.memory.kind(),
            metadata: config.metadata,
            arena,
            range,
            thread_caches: config.thread_caches,
            life: AtomicU64::new(LIVES.fetch_add(1, Ordering::Relaxed)),
            caches: Arc::default(),
            name: config.name,
        };
        // SAFETY: as above.
        unsafe { inner.arena.set_data_hooks(data) }.map_err(refused(&inner.name))?;
        inner.set_up(config.retain, config.decay_ms).map_err(refused(&inner.name))?;
        if config.retain != Retain::Off {
            inner.take_addresses()?;
            inner.arena.keep_large_extents().map_err(refused(&inner.name))?;
        }
        let inner = Arc::new(inner);
        stats::register(&inner);
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

    /// Returns the heap's range of addresses: the first one, and their number.
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
        cache::flush(&self.inner);
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

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    fn flags(&self, layout: Layout) -> c_int {
        let inner = &self.inner;
        let cache = if inner.thread_caches { cache::flags(inner) } else { MALLOCX_TCACHE_NONE };
        align_flag(layout.size(), layout.align()) | MALLOCX_ARENA(inner.arena.index()) | cache
    }
}

impl Inner {
    fn set_up(&self, retain: Retain, decay_ms: Option<u32>) -> Result<(), Refused> {
        let growth = match retain {
            Retain::On { growth_bytes_max } => growth_bytes_max,
            Retain::Off => PAGE_BYTES,
        };
        self.arena.set_growth(growth)?;
        let decay = decay_ms.map_or(-1, |ms| isize::try_from(ms).unwrap_or(isize::MAX));
        self.arena.set_decay(decay)
    }

    /// Makes the arena take its range as one extent, which costs no memory. jemalloc merges only
    /// parts of the same extent, so freed memory can serve objects of any length again.
    fn take_addresses(&self) -> Result<(), HeapError> {
        let room = self.range.room();
        // Later blocks of metadata lie in the range, too.
        let bytes = size_within(match self.metadata {
            Metadata::Separate => room,
            Metadata::Together => room - room / PAGE_BYTES / TOGETHER_SHARE * PAGE_BYTES,
        });
        self.range.begin(bytes);
        let flags = MALLOCX_ARENA(self.arena.index()) | MALLOCX_TCACHE_NONE;
        // SAFETY: the size is not zero; the flags name a live arena, and no cache.
        let object = NonNull::new(unsafe { mallocx(bytes, flags) });
        let no_room = || HeapError::NoRoom { heap: self.name.clone(), bytes };
        // SAFETY: just allocated with these flags.
        unsafe { dallocx(object.ok_or_else(no_room)?.as_ptr(), flags) };
        for _ in 0..PURGES_MAX {
            self.arena.purge().map_err(refused(&self.name))?;
            if self.range.has_begun() {
                return Ok(());
            }
            // One of jemalloc's own threads is purging the arena.
            thread::yield_now();
        }
        let source = io::Error::other("it keeps pages that are free");
        Err(refused(&self.name)(Refused { key: "purge".to_owned(), source }))
    }

    pub(crate) fn life(&self) -> u64 {
        self.life.load(Ordering::Acquire)
    }

    pub(crate) fn caches(&self) -> &Arc<CachesOfHeap> {
        &self.caches
    }

    /// Destroys all caches. Threads no longer use the ones that they know: those belong to the life
    /// that ends.
    fn end_caches(&self) {
        self.life.store(LIVES.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        self.caches.end_all();
    }

    pub(crate) fn stats(&self) -> Result<HeapStats, HeapError> {
        arena::take_statistics().map_err(refused(&self.name))?;
        self.taken_stats()
    }

    /// True if every page in use holds objects or metadata.
    fn is_all_back(&self) -> bool {
        let active = arena::take_statistics().and_then(|()| self.arena.statistic("pactive"));
        let (taken, _) = self.range.used();
        let unused =
            |active| taken.saturating_sub(self.range.metadata_bytes() + active * PAGE_BYTES);
        active.is_ok_and(|active| unused(active) == 0)
    }

    /// Returns one of the arena's statistics, as of the last refresh.
    pub(crate) fn statistic(&self, name: &str) -> Result<usize, Refused> {
        self.arena.statistic(name)
    }

    /// Returns the heap's statistics as of the last refresh.
    pub(crate) fn taken_stats(&self) -> Result<HeapStats, HeapError> {
        let of = |name| self.arena.statistic(name).map(to_u64).map_err(refused(&self.name));
        let (taken, peak) = self.range.used();
        Ok(HeapStats {
            name: self.name.clone(),
            memory: self.kind,
            metadata: self.metadata,
            bytes: to_u64(self.range.len()),
            taken_bytes: to_u64(taken),
            taken_bytes_max: to_u64(peak),
            small_bytes: of("small.allocated")?,
            large_bytes: of("large.allocated")?,
            metadata_bytes: of("base")?,
            free_bytes: of("pdirty")? * to_u64(PAGE_BYTES) + of("retained")?,
            extents: self.range.calls.load(Ordering::Relaxed),
            refusals: self.range.refusals.load(Ordering::Relaxed),
            caches: to_u64(self.caches.count()),
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_caches();
        if let Err(refused) = self.arena.destroy() {
            tracing::error!(heap = self.name, key = refused.key, error = %refused.source,
                "an arena stays, and its memory with it");
            // The arena may call its hooks for as long as the process lives.
            let _stays = ManuallyDrop::new(Arc::clone(&self.range));
            return;
        }
        // A region without another owner is dropped with the heap; its blocks need no eviction.
        if self.range.region().is_some_and(|region| Arc::strong_count(region) > 1) {
            self.range.end();
        }
    }
}

pub(crate) fn refused(heap: &str) -> impl FnOnce(Refused) -> HeapError {
    let heap = heap.to_owned();
    |Refused { key, source }| HeapError::Arena { heap, key, source }
}

fn of_region(heap: &str) -> impl FnOnce(RegionError) -> HeapError {
    let heap = heap.to_owned();
    |source| HeapError::Region { heap, source }
}

fn range(config: &HeapConfig) -> Result<Range, HeapError> {
    let system = |what| {
        let heap = config.name.clone();
        move |source| HeapError::System { heap, what, source }
    };
    let ledger = config.ledger.as_ref();
    let consumer = ledger.map(|ledger| ledger.register(config.name.clone(), Class::Heap));
    let keeps = config.retain != Retain::Off;
    let bytes = config.memory.bytes();
    if let Backing::Region { region, offset, .. } = &config.memory {
        let part = Part::take(region, format!("heap {}", config.name), *offset, bytes);
        let part = part.map_err(of_region(&config.name))?;
        let start = part.as_ptr();
        let blocks = UsedBlocks::new(part);
        return Ok(Range::new((start, bytes), Memory::Region(blocks), keeps, consumer));
    }
    let mapping = Mapping::reserve(bytes).map_err(system("reserving addresses"))?;
    if let Backing::Node { node, .. } = config.memory {
        mapping.bind(node).map_err(system("binding memory to the node"))?;
    }
    let start = mapping.as_ptr();
    Ok(Range::new((start, bytes), Memory::Own(mapping), keeps, consumer))
}

/// Pins the first block of an arena over a region.
fn first_block(config: &HeapConfig) -> Result<Option<Pin>, HeapError> {
    let Backing::Region { region, offset, bytes } = &config.memory else { return Ok(None) };
    let pinned = region.pin(to_u64(*offset), to_u64(FIRST_BLOCK_BYTES.min(*bytes)));
    Ok(Some(pinned.map_err(of_region(&config.name))?))
}

/// Returns the bytes of the largest object that takes at most `bytes`, which are some MiB in whole
/// pages.
fn size_within(bytes: usize) -> usize {
    // There are four size classes between two powers of two, unless jemalloc rounds to pages.
    let step = 1 << (bytes.ilog2() - 2);
    if usable(bytes, ALIGN_ALWAYS) == bytes { bytes } else { bytes / step * step }
}

fn align_flag(size: usize, align: usize) -> c_int {
    if align <= ALIGN_ALWAYS && align <= size { 0 } else { MALLOCX_ALIGN(align) }
}

/// Returns the bytes of a heap that an object takes: those of its layout, rounded up to a size
/// class.
#[must_use]
pub fn object_bytes(layout: Layout) -> usize {
    usable(layout.size().max(1), layout.align())
}

/// Returns the size class of an object of `size` bytes.
fn usable(size: usize, align: usize) -> usize {
    // SAFETY: computes on numbers; the size is not zero.
    unsafe { tikv_jemalloc_sys::nallocx(size, align_flag(size, align)) }
}

#[cfg(test)]
mod tests {
    use super::*;

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

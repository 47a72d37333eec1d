//! Thread caches of freed objects, one per thread and heap.
//!
//! jemalloc's automatic cache of a thread serves every arena: objects of a tier would come out of
//! plain `malloc`, and the other way round. So each thread has explicit caches, one for each heap
//! that it uses.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex, Weak};

use terrace_sys::sync::lock;

use tikv_jemalloc_sys::{MALLOCX_TCACHE, MALLOCX_TCACHE_NONE};

use crate::arena;

/// Thread caches of a heap, each with the life of the heap that it belongs to. An exiting thread
/// keeps this structure alive for a moment, but not the heap.
#[derive(Debug, Default)]
pub(crate) struct CachesOfHeap(Mutex<HashSet<(u64, c_uint)>>);

impl CachesOfHeap {
    /// Creates a cache for a thread; `None` if the allocator has no more.
    fn begin(&self, life: u64) -> Option<c_uint> {
        let index = arena::create_cache().ok()?;
        lock(&self.0).insert((life, index));
        Some(index)
    }

    /// Destroys the cache of an exiting thread, unless a reset has destroyed it already. A
    /// concurrent reset waits for this call.
    fn end(&self, life: u64, index: c_uint) {
        let mut caches = lock(&self.0);
        if caches.remove(&(life, index)) {
            end(index);
        }
    }

    /// Destroys all caches.
    pub(crate) fn end_all(&self) {
        lock(&self.0).drain().for_each(|(_, index)| end(index));
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

fn end(cache: c_uint) {
    if let Err(refused) = arena::destroy_cache(cache) {
        tracing::warn!(key = refused.key, error = %refused.source, "a cache stays");
    }
}

thread_local! {
    /// Life of the heap that this thread used last, and the flags of its cache.
    static LAST: Cell<(u64, c_int)> = const { Cell::new((0, 0)) };
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches(Vec::new())) };
}

/// Caches of one thread.
struct Caches(Vec<Cache>);

struct Cache {
    life: u64,
    /// Number of the cache; `None` if the allocator had no more caches.
    index: Option<c_uint>,
    all: Weak<CachesOfHeap>,
}

impl Drop for Caches {
    fn drop(&mut self) {
        // Calls that free later in this thread's exit go without a cache.
        LAST.set((0, 0));
        for cache in self.0.drain(..) {
            // A heap that was dropped or reset has destroyed its caches itself.
            if let Some((all, index)) = cache.all.upgrade().zip(cache.index) {
                all.end(cache.life, index);
            }
        }
    }
}

/// Returns the flags that name this thread's cache of a heap with these caches, which is created if
/// need be, or the flag for no cache.
pub(crate) fn flags(life: u64, all: &Arc<CachesOfHeap>) -> c_int {
    let (last, flags) = LAST.get();
    if last == life { flags } else { find(life, all) }
}

#[cold]
fn find(life: u64, all: &Arc<CachesOfHeap>) -> c_int {
    let found = CACHES.try_with(|caches| {
        // A nested call, made by a heap's collection during a change of this list, goes without a
        // cache.
        let mut caches = caches.try_borrow_mut().ok()?;
        let known = caches.0.iter().find(|cache| cache.life == life).map(|cache| cache.index);
        Some(known.unwrap_or_else(|| caches.add(life, all)))
    });
    let Some(index) = found.ok().flatten() else { return MALLOCX_TCACHE_NONE };
    let flags = index.map_or(MALLOCX_TCACHE_NONE, |index| MALLOCX_TCACHE(index as usize));
    LAST.set((life, flags));
    flags
}

impl Caches {
    fn add(&mut self, life: u64, all: &Arc<CachesOfHeap>) -> Option<c_uint> {
        let weak = Arc::downgrade(all);
        // Remove the caches of dropped heaps and of former lives of this heap.
        self.0.retain(|cache| cache.all.strong_count() > 0 && !cache.all.ptr_eq(&weak));
        let index = all.begin(life);
        self.0.push(Cache { life, index, all: weak });
        index
    }
}

/// Empties this thread's cache of a heap.
pub(crate) fn flush(life: u64) {
    let index = CACHES.try_with(|caches| {
        let caches = caches.try_borrow().ok()?;
        caches.0.iter().find(|cache| cache.life == life).and_then(|cache| cache.index)
    });
    if let Some(index) = index.ok().flatten()
        && let Err(refused) = arena::flush_cache(index)
    {
        tracing::warn!(key = refused.key, error = %refused.source, "a cache stays full");
    }
}

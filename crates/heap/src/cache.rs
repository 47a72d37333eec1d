//! A cache of freed objects for each thread and heap.
//!
//! jemalloc has one cache for each thread, which it would use for every arena: objects of a tier
//! would come out of plain `malloc`, and the other way round. So each thread has explicit caches
//! here, one for each heap that it uses.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex, Weak};

use tikv_jemalloc_sys::{MALLOCX_TCACHE, MALLOCX_TCACHE_NONE};

use crate::arena;
use crate::heap::Inner;
use crate::lock;

/// The caches that threads have of a heap, each with the life that it is of. A thread that ends
/// keeps this alive for a moment, and not the heap.
#[derive(Debug, Default)]
pub(crate) struct CachesOfHeap(Mutex<HashSet<(u64, c_uint)>>);

impl CachesOfHeap {
    /// Makes a cache for a thread; none when there are too many.
    fn begin(&self, life: u64) -> Option<c_uint> {
        let index = arena::create_cache().ok()?;
        lock(&self.0).insert((life, index));
        Some(index)
    }

    /// Ends the cache of a thread that ends. A reset waits for it, or has ended it before.
    fn end(&self, life: u64, index: c_uint) {
        let mut caches = lock(&self.0);
        if caches.remove(&(life, index)) {
            end(index);
        }
    }

    /// Ends all of them.
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
    /// The life of the heap that was used last, and the flags of its cache.
    static LAST: Cell<(u64, c_int)> = const { Cell::new((0, 0)) };
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches(Vec::new())) };
}

/// The caches of one thread.
struct Caches(Vec<Cache>);

struct Cache {
    life: u64,
    /// None where the allocator has no more.
    index: Option<c_uint>,
    all: Weak<CachesOfHeap>,
}

impl Drop for Caches {
    fn drop(&mut self) {
        // Who frees later in this thread's end goes without a cache.
        LAST.set((0, 0));
        for cache in self.0.drain(..) {
            // A heap that has ended, or begun anew, has ended its caches itself.
            if let Some((all, index)) = cache.all.upgrade().zip(cache.index) {
                all.end(cache.life, index);
            }
        }
    }
}

/// The flags that name this thread's cache of a heap, made if need be, or say that there is none.
pub(crate) fn flags(heap: &Arc<Inner>) -> c_int {
    let life = heap.life();
    let (last, flags) = LAST.get();
    if last == life { flags } else { find(heap, life) }
}

#[cold]
fn find(heap: &Arc<Inner>, life: u64) -> c_int {
    let found = CACHES.try_with(|caches| {
        // A collection of the allocator's own, in the middle of a change here, goes without.
        let mut caches = caches.try_borrow_mut().ok()?;
        let known = caches.0.iter().find(|cache| cache.life == life).map(|cache| cache.index);
        Some(known.unwrap_or_else(|| caches.add(heap, life)))
    });
    let Some(index) = found.ok().flatten() else { return MALLOCX_TCACHE_NONE };
    let flags = index.map_or(MALLOCX_TCACHE_NONE, |index| MALLOCX_TCACHE(index as usize));
    LAST.set((life, flags));
    flags
}

impl Caches {
    fn add(&mut self, heap: &Arc<Inner>, life: u64) -> Option<c_uint> {
        let all = Arc::downgrade(heap.caches());
        // Heaps that have ended, and former lives of this one.
        self.0.retain(|cache| cache.all.strong_count() > 0 && !cache.all.ptr_eq(&all));
        let index = heap.caches().begin(life);
        self.0.push(Cache { life, index, all });
        index
    }
}

/// Empties this thread's cache of a heap.
pub(crate) fn flush(heap: &Arc<Inner>) {
    let life = heap.life();
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

//! A cache of freed objects for each thread and heap.
//!
//! jemalloc has one cache for each thread, which it would use for every arena: objects of a tier
//! would come out of plain `malloc`, and the other way round. So each thread has explicit caches
//! here, one for each heap that it uses.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Weak};

use tikv_jemalloc_sys::{MALLOCX_TCACHE, MALLOCX_TCACHE_NONE};

use crate::arena;
use crate::heap::Inner;

thread_local! {
    /// The life of the heap that was used last, and the flags of its cache.
    static LAST: Cell<(u64, c_int)> = const { Cell::new((0, 0)) };
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches(Vec::new())) };
}

/// The caches of one thread.
struct Caches(Vec<Cache>);

struct Cache {
    life: u64,
    index: c_uint,
    heap: Weak<Inner>,
}

impl Drop for Caches {
    fn drop(&mut self) {
        // Who frees later in this thread's end goes without a cache.
        LAST.set((0, 0));
        for cache in self.0.drain(..) {
            // A heap that has ended, or begun anew, has ended its caches itself.
            if let Some(heap) = cache.heap.upgrade() {
                heap.end_cache(cache.life, cache.index);
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
        known.or_else(|| caches.add(heap, life))
    });
    let flags = match found.ok().flatten() {
        Some(index) => MALLOCX_TCACHE(index as usize),
        None => return MALLOCX_TCACHE_NONE,
    };
    LAST.set((life, flags));
    flags
}

impl Caches {
    fn add(&mut self, heap: &Arc<Inner>, life: u64) -> Option<c_uint> {
        self.0.retain(|cache| cache.heap.upgrade().is_some_and(|heap| heap.life() == cache.life));
        let index = heap.begin_cache()?;
        self.0.push(Cache { life, index, heap: Arc::downgrade(heap) });
        Some(index)
    }
}

/// Empties this thread's cache of a heap.
pub(crate) fn flush(heap: &Arc<Inner>) {
    let life = heap.life();
    let index = CACHES.try_with(|caches| {
        let caches = caches.try_borrow().ok()?;
        caches.0.iter().find(|cache| cache.life == life).map(|cache| cache.index)
    });
    if let Some(index) = index.ok().flatten()
        && let Err(refused) = arena::flush_cache(index)
    {
        tracing::warn!(key = refused.key, error = %refused.source, "a cache stays full");
    }
}

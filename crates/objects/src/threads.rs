//! Numbers of threads, which select a thread's shard (`place`) of a store's allocators, counters
//! and makers.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the number of the calling thread; threads are numbered in order of their first call.
/// Modulo the number of shards, it is the index of the thread's shard.
#[inline]
pub(crate) fn place() -> usize {
    PLACE.get().unwrap_or_else(|| {
        let place = THREADS.fetch_add(1, Ordering::Relaxed);
        PLACE.set(Some(place));
        place
    })
}

/// Returns the number of shards of a store: twice the number of processors, from 4 to 64.
pub(crate) fn places() -> usize {
    let places = std::thread::available_parallelism().map_or(4, |cores| 2 * cores.get());
    places.clamp(4, 64)
}

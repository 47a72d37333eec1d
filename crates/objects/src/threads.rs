//! Numbers of threads, by which they share the places of a store: allocators, counters, makers.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the number of the calling thread, which its places in stores follow from: threads are
/// numbered in order of their first call.
#[inline]
pub(crate) fn place() -> usize {
    PLACE.get().unwrap_or_else(|| {
        let place = THREADS.fetch_add(1, Ordering::Relaxed);
        PLACE.set(Some(place));
        place
    })
}

/// Returns the number of places that a store has.
pub(crate) fn places() -> usize {
    let places = std::thread::available_parallelism().map_or(4, |cores| 2 * cores.get());
    places.clamp(4, 64)
}

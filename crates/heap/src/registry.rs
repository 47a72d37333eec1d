//! The heaps of the process, and statistics of all of them.

use std::sync::{Arc, Mutex, Weak};

use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use crate::arena::{self, Refused};
use crate::error::{HeapError, refused};
use crate::state::Inner;
use crate::stats::HeapStats;

static HEAPS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Adds a heap.
pub(crate) fn register(inner: &Arc<Inner>) {
    let mut heaps = lock(&HEAPS);
    heaps.retain(|heap| heap.strong_count() > 0);
    heaps.push(Arc::downgrade(inner));
}

/// Returns the statistics of all heaps of this process, oldest first.
#[must_use]
pub fn heaps() -> Vec<HeapStats> {
    let all: Vec<Arc<Inner>> = lock(&HEAPS).iter().filter_map(Weak::upgrade).collect();
    taken_once(all.iter()).filter_map(Result::ok).collect()
}

/// Returns the bytes of memory that the program's allocator holds for objects outside of heaps,
/// including free pages that it has not given back yet. That is the whole of the program's heap if
/// jemalloc is its `#[global_allocator]`. Takes some tens of microseconds.
///
/// # Errors
/// [`HeapError::Arena`] when the allocator refuses its statistics.
pub fn allocator_bytes() -> Result<u64, HeapError> {
    let told = || {
        arena::take_statistics()?;
        let all = arena::total("resident")?;
        let heaps: Vec<Arc<Inner>> = lock(&HEAPS).iter().filter_map(Weak::upgrade).collect();
        let own = heaps.iter().map(|heap| heap.statistic("resident"));
        let own = own.sum::<Result<usize, Refused>>()?;
        Ok(to_u64(all.saturating_sub(own)))
    };
    told().map_err(refused("the program"))
}

/// Has the program's allocator give free pages back to the system at once, which it does some
/// seconds later otherwise. Takes milliseconds if there are many.
///
/// # Errors
/// [`HeapError::Arena`] when the allocator refuses.
pub fn release_free_pages() -> Result<(), HeapError> {
    arena::purge_own().map_err(refused("the program"))
}

/// Returns the statistics of heaps, which the first of them refreshes for all.
pub(crate) fn taken_once<'a>(
    heaps: impl Iterator<Item = &'a Arc<Inner>>,
) -> impl Iterator<Item = Result<HeapStats, HeapError>> {
    let mut is_taken = false;
    heaps.map(move |heap| {
        let stats = if is_taken { heap.taken_stats() } else { heap.stats() };
        is_taken |= stats.is_ok();
        stats
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, Heap, HeapConfig, stats_of};

    #[test]
    fn free_pages_are_given_back_at_once() {
        release_free_pages().expect("given back");
    }

    #[test]
    fn statistics_of_many_heaps_are_taken_once() {
        let memory = || Backing::Dram { bytes: 8 << 20 };
        let heaps: Vec<Heap> = (0..5)
            .map(|number| Heap::new(HeapConfig::new(number.to_string(), memory())))
            .collect::<Result<_, _>>()
            .expect("heaps");
        let before = arena::statistics_taken();
        let stats = stats_of(&heaps).expect("told");
        let names: Vec<&str> = stats.iter().map(|heap| heap.name.as_str()).collect();
        assert_eq!(names, ["0", "1", "2", "3", "4"]);
        assert_eq!(arena::statistics_taken(), before + 1);
        assert!(super::heaps().len() >= heaps.len());
        assert_eq!(arena::statistics_taken(), before + 2);
    }
}

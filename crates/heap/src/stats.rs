//! Statistics of heaps.

use std::sync::{Arc, Mutex, Weak};

use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use crate::arena::{self, Refused};
use crate::config::Metadata;
use crate::error::HeapError;
use crate::heap::{Heap, Inner, refused};

/// Statistics of a heap at one moment.
#[derive(Clone, Debug)]
pub struct HeapStats {
    /// Name of the heap.
    pub name: String,
    /// Kind of memory that holds the data: `dram`, `node` or `region`.
    pub memory: &'static str,
    /// Placement of the metadata.
    pub metadata: Metadata,
    /// Bytes of addresses.
    pub bytes: u64,
    /// Bytes of pages that the arena uses: for objects, for metadata that lie in the heap's range,
    /// and free ones that it has not given back yet.
    pub taken_bytes: u64,
    /// Bytes from the first address to the end of the last page that was ever used.
    pub taken_bytes_max: u64,
    /// Bytes of objects below 16 KiB, including those in thread caches.
    pub small_bytes: u64,
    /// Bytes of larger objects.
    pub large_bytes: u64,
    /// Bytes of metadata, in DRAM or in the range.
    pub metadata_bytes: u64,
    /// Bytes that the arena holds without an object in them: free pages that still have memory, and
    /// retained addresses without memory.
    pub free_bytes: u64,
    /// Number of extents that the arena has requested since it was created.
    pub extents: u64,
    /// Number of requests for extents or pages that were refused for lack of addresses or budget.
    pub refusals: u64,
    /// Number of thread caches, which keep freed objects for their thread's next requests.
    pub caches: u64,
}

static HEAPS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

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

/// Returns the statistics of some heaps, in their order. jemalloc refreshes the statistics of all
/// arenas of the process at once; this function refreshes them once, [`Heap::stats`] does for each
/// heap.
///
/// # Errors
/// As [`Heap::stats`].
pub fn stats_of<'a>(
    heaps: impl IntoIterator<Item = &'a Heap>,
) -> Result<Vec<HeapStats>, HeapError> {
    taken_once(heaps.into_iter().map(Heap::inner)).collect()
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

fn taken_once<'a>(
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
    use crate::{Backing, HeapConfig};

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

//! What heaps hold.

use std::sync::{Arc, Mutex, Weak};

use crate::arena;
use crate::config::Metadata;
use crate::heap::Inner;
use crate::lock;

/// What a heap holds, at one moment.
#[derive(Clone, Debug)]
pub struct HeapStats {
    /// Its name.
    pub name: String,
    /// Where its bytes live: `dram`, `node` or `region`.
    pub memory: &'static str,
    /// Where its metadata live.
    pub metadata: Metadata,
    /// Bytes of addresses.
    pub bytes: u64,
    /// Bytes of addresses that its arena has taken and not given back.
    pub taken_bytes: u64,
    /// Bytes from the first address to the last that was ever taken.
    pub taken_bytes_max: u64,
    /// Bytes of objects below 16 KiB, those in caches of threads included.
    pub small_bytes: u64,
    /// Bytes of larger objects.
    pub large_bytes: u64,
    /// Bytes of metadata, wherever they are.
    pub metadata_bytes: u64,
    /// Bytes that the arena has and no object uses: free pages that still have memory, and
    /// addresses alone.
    pub free_bytes: u64,
    /// Extents that the arena asked for since it was made.
    pub extents: u64,
    /// Those that there was no room or no budget for.
    pub refusals: u64,
    /// Threads that keep freed objects for their next requests.
    pub caches: u64,
}

static HEAPS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

pub(crate) fn register(inner: &Arc<Inner>) {
    let mut heaps = lock(&HEAPS);
    heaps.retain(|heap| heap.strong_count() > 0);
    heaps.push(Arc::downgrade(inner));
}

/// The statistics of all heaps of this process, the oldest first.
#[must_use]
pub fn heaps() -> Vec<HeapStats> {
    let all: Vec<Arc<Inner>> = lock(&HEAPS).iter().filter_map(Weak::upgrade).collect();
    if arena::take_statistics().is_err() {
        return Vec::new();
    }
    all.iter().filter_map(|heap| heap.taken_stats().ok()).collect()
}

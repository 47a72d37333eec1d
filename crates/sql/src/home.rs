//! Where segments live: in pages of the pool, or copied to a heap.
//!
//! Every segment has a page and an extent, which make it durable. A heap may have a copy of its
//! bytes besides: scans then read that one, in place, and the page leaves memory like any other
//! that nobody reads. Moving is the paper's three steps (Weisgut et al., 2022, section III.E): the
//! segment is copied, the pointer is switched, and what the pointer named before is freed once its
//! last reader lets go.
//!
//! Homes are of this process: a database begins with all segments in the pool.

mod auto;
mod heaps;
mod keeper;
mod moves;

use std::alloc::Layout;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use terrace_heap::{HeapBuffer, HeapError, object_bytes};
use terrace_sys::size::{to_u64, to_usize};

use crate::table::TableVersion;

pub(crate) use heaps::{HeapDefinition, Heaps, NamedHeap};
pub(crate) use keeper::{Keeper, Parts as KeeperParts};
pub(crate) use moves::{Scope, Target, Wish, Wishes, forget_reads, move_table};

/// Where buffers of a segment begin, at the least.
const ALIGN: usize = 64;

/// Where a segment lives, and how often it was read lately.
#[derive(Debug, Default)]
pub(crate) struct Home {
    copy: RwLock<Option<Arc<Copied>>>,
    reads: AtomicU32,
}

/// A segment's bytes in a heap.
#[derive(Debug)]
pub(crate) struct Copied {
    heap: Arc<NamedHeap>,
    bytes: HeapBuffer,
}

/// What Arrow's buffers hold on to.
struct Owner(Arc<Copied>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes.as_ref()
    }
}

impl Home {
    /// The copy in a heap, if there is one.
    pub(crate) fn copied(&self) -> Option<Arc<Copied>> {
        self.copy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name of the heap with the copy.
    pub(crate) fn heap_name(&self) -> Option<String> {
        self.copied().map(|copied| copied.heap.name().to_owned())
    }

    /// Somebody reads the segment.
    pub(crate) fn count(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads since the last calls, each of which halves what it leaves.
    fn reads_lately(&self) -> u32 {
        let halve = |reads: u32| Some(reads / 2);
        self.reads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, halve).unwrap_or(0)
    }

    /// From now on the segment is read there; somebody keeps the heap from being dropped.
    fn switch(&self, copy: Option<Arc<Copied>>) {
        let mut current = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, copy);
        drop(current);
        // Freeing may wait for a page fault: nobody waits for the lock meanwhile.
        drop(before);
    }

    /// From now on the segment is read in the pool, if it was in the heap.
    fn leave(&self, heap: &Arc<NamedHeap>) {
        let mut current = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        let before = current.take_if(|copy| Arc::ptr_eq(&copy.heap, heap));
        drop(current);
        drop(before);
    }

    /// Nobody has read it.
    fn forget_reads(&self) {
        self.reads.store(0, Ordering::Relaxed);
    }
}

/// Bytes of a heap that a copy of so many takes.
fn copy_bytes(len: u64) -> u64 {
    let layout = Layout::from_size_align(to_usize(len), ALIGN);
    layout.map_or(len, |layout| to_u64(object_bytes(layout)))
}

impl Copied {
    fn new(heap: &Arc<NamedHeap>, bytes: &[u8]) -> Result<Self, HeapError> {
        Ok(Self { heap: Arc::clone(heap), bytes: heap.copy(bytes, ALIGN)? })
    }

    /// The bytes, for as long as anybody points into them.
    pub(crate) fn bytes(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Owner(Arc::clone(self)))
    }

    /// Whether they are in DRAM, whatever happens.
    pub(crate) fn is_dram(&self) -> bool {
        self.heap.is_dram()
    }

    /// Asks for them ahead of their use, where they may be elsewhere.
    pub(crate) fn prefetch(&self) {
        let bytes = self.bytes.as_ref();
        let Some(region) = self.heap.heap().region() else { return };
        let offset = bytes.as_ptr().addr().wrapping_sub(region.as_ptr().addr());
        // The range is one of the region's: a hint that is refused would be a defect here.
        if let Err(error) = region.prefetch(to_u64(offset), to_u64(bytes.len())) {
            tracing::warn!(%error, "a segment is not asked for ahead");
        }
    }
}

/// Moves every segment that is in a heap back to the pool alone.
pub(crate) fn leave(version: &TableVersion, heap: &Arc<NamedHeap>) {
    for segment in version.chunks.iter().flat_map(|chunk| &chunk.columns) {
        segment.home.leave(heap);
    }
}

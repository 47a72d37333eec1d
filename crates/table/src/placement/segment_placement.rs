//! Placement of a segment: a copy in a heap, or the pool alone.

use std::alloc::Layout;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use terrace_heap::{HeapBuffer, HeapError, object_bytes};
use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::{read, write};

use super::heaps::NamedHeap;

/// Alignment of a copied segment, the minimum for its buffers.
const ALIGN: usize = 64;

/// Placement of a segment, and its recent reads.
#[derive(Debug, Default)]
pub struct SegmentPlacement {
    copy: RwLock<Option<Arc<Copied>>>,
    reads: AtomicU32,
}

/// A copy of a segment's bytes in a heap.
#[derive(Debug)]
pub struct Copied {
    heap: Arc<NamedHeap>,
    bytes: HeapBuffer,
}

/// Owner of the bytes that Arrow's buffers point into.
struct Owner(Arc<Copied>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes.as_ref()
    }
}

impl SegmentPlacement {
    /// Returns the copy in a heap, if there is one.
    pub fn copied(&self) -> Option<Arc<Copied>> {
        read(&self.copy).clone()
    }

    /// Returns the name of the heap with the copy.
    pub fn heap_name(&self) -> Option<String> {
        self.copied().map(|copied| copied.heap.name().to_owned())
    }

    /// Counts a read of the segment.
    pub fn count(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the exponentially decayed read count; each call halves it.
    pub(super) fn reads_lately(&self) -> u32 {
        let halve = |reads: u32| Some(reads / 2);
        self.reads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, halve).unwrap_or(0)
    }

    /// Switches later reads to `copy`, or to the pool if it is `None`. The caller keeps the heap
    /// from being dropped.
    pub(super) fn switch(&self, copy: Option<Arc<Copied>>) {
        let mut current = write(&self.copy);
        let before = std::mem::replace(&mut *current, copy);
        drop(current);
        // Freeing may wait for a page fault, so it happens after the lock is released.
        drop(before);
    }

    /// Switches later reads to the pool, if the copy is in `heap`.
    pub(super) fn leave(&self, heap: &Arc<NamedHeap>) {
        let mut current = write(&self.copy);
        let before = current.take_if(|copy| Arc::ptr_eq(&copy.heap, heap));
        drop(current);
        drop(before);
    }

    /// Resets the read count.
    pub(super) fn forget_reads(&self) {
        self.reads.store(0, Ordering::Relaxed);
    }
}

/// Returns the bytes of a heap that a copy of `len` bytes takes.
pub(super) fn copy_bytes(len: u64) -> u64 {
    let layout = Layout::from_size_align(to_usize(len), ALIGN);
    layout.map_or(len, |layout| to_u64(object_bytes(layout)))
}

impl Copied {
    pub(super) fn new(heap: &Arc<NamedHeap>, bytes: &[u8]) -> Result<Self, HeapError> {
        Ok(Self { heap: Arc::clone(heap), bytes: heap.copy(bytes, ALIGN)? })
    }

    /// Returns the heap that holds the copy.
    pub(super) fn heap(&self) -> &Arc<NamedHeap> {
        &self.heap
    }

    /// Returns the bytes for as long as the copy is held.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns the bytes, which stay valid for as long as a buffer points into them.
    pub fn bytes(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Owner(Arc::clone(self)))
    }

    /// Returns true if the bytes are always in DRAM.
    pub(crate) fn is_dram(&self) -> bool {
        self.heap.is_dram()
    }

    /// Prefetches the bytes if the heap is over a region, whose blocks may not be in DRAM.
    pub(crate) fn prefetch(&self) {
        let bytes = self.bytes.as_ref();
        let Some(region) = self.heap.heap().region() else { return };
        let offset = bytes.as_ptr().addr().wrapping_sub(region.as_ptr().addr());
        // The range is inside the region, so a rejected hint would be a bug here.
        if let Err(error) = region.prefetch(to_u64(offset), to_u64(bytes.len())) {
            tracing::warn!(%error, "a segment is not asked for ahead");
        }
    }
}

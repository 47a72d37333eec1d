//! Statistics of a heap.

use crate::config::Metadata;

/// Statistics of a heap at one moment.
#[derive(Clone, Debug)]
pub struct HeapStats {
    /// Name of the heap.
    pub name: String,
    /// Kind of memory that holds the data: `dram`, `node` or `region`.
    pub memory: &'static str,
    /// Placement of the metadata.
    pub metadata: Metadata,
    /// Bytes of the heap's address space.
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

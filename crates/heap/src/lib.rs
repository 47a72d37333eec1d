//! Heaps: an allocator whose memory is DRAM, a memory node, or a region larger than DRAM.
//!
//! A [`Heap`] is one jemalloc arena whose extents come from one range of addresses, through
//! jemalloc's extent hooks. Collections use it as an [`allocator_api2::alloc::Allocator`]; other
//! callers use [`Heap::allocate`], [`Heap::deallocate`] and [`Heap::reallocate`]. Each thread has a
//! cache per heap, from which it reuses without a lock the objects that it freed.
//!
//! ```text
//!   collections, C, C++        threads
//!          |                     | one cache for each heap
//!   +------v---------------------v------+
//!   | jemalloc arena                    |   metadata: in DRAM, or in the same range
//!   +------+----------------------------+
//!          | extent hooks: alloc, commit, decommit, split, merge, ...
//!   +------v----------------------------+
//!   | extents: a range, first fit       |
//!   +------+----------------------------+
//!     DRAM, a node (mbind)  |  a region (page faults, a file)
//! ```
//!
//! The design is that of Weisgut et al., "Separated Allocator Metadata in Disaggregated In-Memory
//! Databases: Friend or Foe?" (2022), section III; where it differs, `docs/design/heap.md` says
//! why.
//!
//! ```
//! use terrace_heap::{Heap, HeapConfig, Backing, allocator_api2::vec::Vec};
//!
//! # fn main() -> Result<(), terrace_heap::HeapError> {
//! // `Backing::region` takes a region, which may be larger than DRAM, and `Node` a memory node.
//! let heap = Heap::new(HeapConfig::new("orders", Backing::Dram { bytes: 64 << 20 }))?;
//! let mut keys = Vec::new_in(&heap);
//! keys.extend(0..1_000_000_u64);
//! assert!(heap.contains(keys.as_ptr().cast()));
//! assert!(heap.stats()?.large_bytes >= 8_000_000);
//! # Ok(())
//! # }
//! ```
//!
//! # Rules that hold everywhere
//!
//! - A hook never allocates. It takes the lock of the extents, and over a region those of the
//!   blocks' use counts and of the pagers' queues; no thread holds any of them while it waits.
//! - Every call names a cache of its heap or none: jemalloc's automatic thread cache would serve
//!   one heap with memory of another.
//! - A pointer stays valid until it is freed or its heap is dropped, whichever comes first.

mod allocator;
mod arena;
mod base;
mod blocks;
mod buffer;
mod cache;
mod config;
mod error;
mod extents;
mod heap;
mod hooks;
mod registry;
mod size_class;
mod state;
mod stats;

pub use allocator_api2;
pub use buffer::HeapBuffer;
pub use config::{HeapConfig, Metadata, Retain};
pub use error::HeapError;
pub use heap::{Heap, stats_of};
pub use registry::{allocator_bytes, heaps, release_free_pages};
pub use size_class::object_bytes;
pub use stats::HeapStats;
pub use terrace_region::Backing;

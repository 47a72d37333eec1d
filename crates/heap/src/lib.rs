//! Heaps: an allocator whose memory is DRAM, a memory node, or a region larger than DRAM.
//!
//! A [`Heap`] is one arena of jemalloc whose extents come from one range of addresses, through all
//! of jemalloc's extent hooks. It serves collections by [`allocator_api2::alloc::Allocator`], and
//! anybody else by [`Heap::allocate`], [`Heap::deallocate`] and [`Heap::reallocate`]. What a
//! thread frees it gets again without a lock, from a cache of its own for each heap.
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
//! # Rules that hold everywhere
//!
//! - A hook never allocates, and takes one lock, of the extents, that nobody holds while waiting.
//! - Every call names a cache of its heap or none: jemalloc's own cache of a thread would serve one
//!   heap with memory of another.
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
mod stats;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use allocator_api2;
pub use buffer::HeapBuffer;
pub use config::{HeapConfig, HeapMemory, Metadata, Retain};
pub use error::HeapError;
pub use heap::{Heap, object_bytes};
pub use stats::{HeapStats, allocator_bytes, heaps, stats_of};

/// Locks; what a thread that panicked has left is whole, since no lock is held over a change in
/// steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

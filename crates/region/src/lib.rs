//! Regions: memory paged in user space from a file, a device or another store.
//!
//! A [`Region`] is a range of addresses over a [`Source`]. A block of it (4 KiB to 4 MiB) is paged
//! in when a thread touches it, and evicted when the region's cap is reached. Code that touches the
//! memory needs no knowledge of this: it may use the addresses like any others, and pass them to
//! system calls if this process may handle their faults ([`Region::serves_system_calls`]).
//!
//! ```text
//!   threads that touch          pin, prefetch, evict, flush
//!          | page faults                | commands
//!   +------v----------------------------v------+
//!   | pager (one thread per shard of blocks)   |   never waits for a transfer
//!   |   resident  -> aside -> free frames      |
//!   +------+-----------------------------------+
//!          | io_uring, or threads
//!       source
//! ```
//!
//! Pages are moved, not copied (`UFFDIO_MOVE`): a transfer reads into a frame whose pages are then
//! mapped at the fault address, and a victim is moved out whole, so that no thread can write to it
//! while it is written back. Blocks that were moved out stay *aside* for a while (second chance): a
//! fault on one brings it back without a transfer, which tells recency without access bits. If the
//! kernel cannot move pages, blocks are copied in and write-protected to detect which are dirty, as
//! UMap does (Peng et al., "UMap: Enabling Application-driven Optimizations for Page Management",
//! 2019).
//!
//! ```
//! use std::sync::Arc;
//!
//! use terrace_ledger::Ledger;
//! use terrace_region::{Contents, Region, RegionConfig, Source};
//! use terrace_store::MemoryBlocks;
//!
//! # fn main() -> Result<(), terrace_region::RegionError> {
//! // 64 MiB of addresses in 8 MiB of DRAM. `FileBlocks` are the blocks of a file or device.
//! let blocks = Arc::new(MemoryBlocks::new(64 << 20));
//! let source = Source { blocks, offset: 0, len: 64 << 20, contents: Contents::Blank };
//! let region = Region::new(RegionConfig::new("example", Ledger::new(8 << 20)), source)?;
//! for at in (0..region.len()).step_by(4096) {
//!     region.store(at, 7); // a page fault if the block is not resident
//! }
//! assert_eq!(region.load(4096), 7);
//! assert!(region.stats().resident_bytes <= 8 << 20);
//! region.flush(0, 64 << 20)?;
//! # Ok(())
//! # }
//! ```
//!
//! A thread that touches a region may wait for its pager, and a pager logs failures (by `tracing`):
//! memory of a region must not be touched while holding a lock that the logger takes, such as that
//! of standard error.

mod advice;
mod backing;
mod block;
mod calibrate;
mod command_queue;
mod config;
mod error;
#[cfg(all(test, loom))]
mod loom_tests;
mod pager;
mod part;
mod parts;
mod pin;
mod readahead;
mod region;
mod state;
mod stats;
mod transfers;
mod userfault;
mod waiter;

pub use advice::Advice;
pub use backing::Backing;
pub use config::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Contents, DEPTH_MAX, Method, RegionConfig, Source,
};
pub use error::RegionError;
pub use part::Part;
pub use pin::Pin;
pub use region::Region;
pub use stats::RegionStats;

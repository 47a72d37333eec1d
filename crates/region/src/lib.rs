//! Regions: memory whose bytes live in a file, a device or another store.
//!
//! A [`Region`] is a range of addresses over a [`Source`]. A block of it (4 KiB to 4 MiB) comes
//! into memory when somebody touches it, and leaves when the region's cap is reached. Who touches
//! memory needs to know nothing of this: any code may use the addresses, in system calls too where
//! this process may see their faults ([`Region::serves_system_calls`]).
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
//! Frames are moved, not copied (`UFFDIO_MOVE`): a transfer reads into pages that are then mapped
//! where the fault was, and a block that leaves is moved out whole, so that nobody can write to it
//! while it is written back. Moved-out blocks stay *aside* for a while; who wants one again gets it
//! back without a transfer, which is how recency is told without access bits. Where the kernel
//! cannot move, blocks are copied in and protected from writes to know which are dirty, as UMap
//! does (Peng et al., "UMap: Enabling Application-driven Optimizations for Page Management", 2019).
//!
//! Whoever touches a region waits for its pager, and a pager logs what goes wrong (by `tracing`):
//! memory of a region must not be touched while a lock is held that the log takes, such as that of
//! standard error.

mod block;
mod calibrate;
mod config;
mod error;
mod inbox;
#[cfg(all(test, loom))]
mod loom_tests;
mod pager;
mod parts;
mod region;
mod shared;
mod stats;
mod streams;
mod transfers;
mod waiter;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use config::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Contents, DEPTH_MAX, Method, RegionConfig, Source,
};
pub use error::RegionError;
pub use parts::Part;
pub use region::{Advice, Pin, Region};
pub use stats::RegionStats;

/// Locks; what a thread that panicked has left is as good as what it found, since no lock is held
/// over a change in steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The n-tier buffer pool.
//!
//! A [`Pool`] keeps pages of 4 KiB to 16 MiB in memory tiers - DRAM under the budget of a
//! [`terrace_ledger::Ledger`], slower memory below it - and on a store, and moves them between the
//! tiers by the score of a policy. Owners hold their pages in a [`Space`] and reach each by an
//! 8-byte [`PageRef`] (Logical ID with Physical Address Hinting; Otaki et al., CIDR 2025, section
//! 3). The page states, the optimistic latches and the clock-free eviction in batches follow
//! vmcache (Leis et al., SIGMOD 2023) and its n-tier successor.
//!
//! ```
//! use terrace_ledger::Ledger;
//! use terrace_pool::{Pool, PoolConfig};
//!
//! # fn main() -> Result<(), terrace_pool::PoolError> {
//! let pool = Pool::new(PoolConfig::new("example", Ledger::new(64 << 20)))?;
//! let space = pool.create_space("letters", None)?;
//! let (mut page, mut guard) = space.allocate(4096)?;
//! guard[..5].copy_from_slice(b"hello");
//! drop(guard);
//! assert_eq!(&space.read(&mut page)?[..5], b"hello");
//! # Ok(())
//! # }
//! ```

mod page;
mod state;
mod sync;

#[cfg(not(loom))]
mod account;
#[cfg(not(loom))]
mod addresses;
#[cfg(not(loom))]
mod admission;
#[cfg(not(loom))]
mod allocate;
#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod array;
#[cfg(not(loom))]
mod background;
#[cfg(not(loom))]
mod backlog;
#[cfg(not(loom))]
mod batch;
#[cfg(not(loom))]
mod claim;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
mod counter;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod evict;
#[cfg(not(loom))]
mod fetch;
#[cfg(not(loom))]
mod fix;
#[cfg(not(loom))]
mod frame;
#[cfg(not(loom))]
mod free;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod heat;
#[cfg(not(loom))]
mod hold;
#[cfg(not(loom))]
mod load;
#[cfg(not(loom))]
mod load_queue;
#[cfg(not(loom))]
mod loader;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod nodes;
#[cfg(not(loom))]
mod occupancy;
#[cfg(not(loom))]
mod optimistic;
#[cfg(not(loom))]
mod owner;
#[cfg(not(loom))]
mod page_ids;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod persist;
#[cfg(not(loom))]
mod placement;
#[cfg(not(loom))]
mod plan;
#[cfg(not(loom))]
mod policy;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod progress;
#[cfg(not(loom))]
mod promote;
#[cfg(not(loom))]
mod promotions;
#[cfg(not(loom))]
mod random;
#[cfg(not(loom))]
mod recency;
#[cfg(not(loom))]
mod relocate;
#[cfg(not(loom))]
mod residency;
#[cfg(not(loom))]
mod resize;
#[cfg(not(loom))]
mod space;
#[cfg(not(loom))]
mod space_table;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod tier;
#[cfg(not(loom))]
mod victims;
#[cfg(not(loom))]
mod worker;
#[cfg(not(loom))]
mod write_back;

pub use page::{PAGE_MAX_BYTES, PAGE_MIN_BYTES, PageId, PageRef};

#[cfg(not(loom))]
pub use config::PoolConfig;
#[cfg(not(loom))]
pub use counter::Counter;
#[cfg(not(loom))]
pub use error::PoolError;
#[cfg(not(loom))]
pub use fetch::Fetch;
#[cfg(not(loom))]
pub use guard::{Pinned, PinnedMut, ReadGuard, WriteGuard};
#[cfg(not(loom))]
pub use optimistic::OptimisticGuard;
#[cfg(not(loom))]
pub use pages::Pages;
#[cfg(not(loom))]
pub use placement::Placement;
#[cfg(not(loom))]
pub use policy::{Adaptive, Policy, SampledScore, Spitfire};
#[cfg(not(loom))]
pub use pool::Pool;
#[cfg(not(loom))]
pub use residency::{Access, Interval, PageView, Residency};
#[cfg(not(loom))]
pub use space::Space;
#[cfg(not(loom))]
pub use stats::{PoolStats, SpaceStats, TierStats};
#[cfg(not(loom))]
pub use tier::MEMORY_TIERS_MAX;

//! Tiers: what people type to name them, memory tiers, and the checksummed store.
//!
//! | module | concept |
//! |---|---|
//! | [`spec`] | a tier as people type it: `dram:2GiB`, `file:/data/terrace:100GiB` |
//! | [`memory`] | a tier of memory: capacity, node, delay |
//! | [`mover`] | how pages get to another node |
//! | [`store`] | checksummed extents on a file, a block device or in memory |
//! | [`calibrate`] | what tiers and pages cost here |
//! | [`doctor`] | what was found on this machine, what is missing, what that costs |
//! | [`error`] | what is wrong with a tier, and what would be right |

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod doctor;
pub mod error;
pub mod memory;
pub mod mover;
pub mod spec;
pub mod store;

pub use error::TierError;
pub use memory::MemoryTier;
pub use mover::{Mover, Outcome};
pub use spec::{NodeKind, TierSpec};
pub use store::{Extent, Read, Store, StoreError, Stored, Write};

//! Tiers: their text specifications, memory tiers, and the checksummed store.
//!
//! | module | concept |
//! |---|---|
//! | [`spec`] | text form of a tier: `dram:2GiB`, `file:/data/terrace:100GiB` |
//! | [`memory`] | a tier of memory: capacity, node, delay |
//! | [`mover`] | page migration between NUMA nodes |
//! | [`store`] | checksummed extents on a file, a block device or in memory |
//! | [`calibrate`] | measured performance of tiers and cost of page operations |
//! | [`doctor`] | report on this machine: features found and missing, with their costs |
//! | [`error`] | errors of tiers, which name valid alternatives |

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

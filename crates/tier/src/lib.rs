//! Tiers: their text specifications, memory tiers, and the migration of pages between them.
//!
//! | module | concept |
//! |---|---|
//! | [`spec`] | text form of a tier: `dram:2GiB`, `file:/data/terrace:100GiB` |
//! | [`memory`] | a tier of memory: capacity, node, delay |
//! | [`mover`] | page migration between NUMA nodes |
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
mod timing;

pub use error::TierError;
pub use memory::MemoryTier;
pub use mover::{Mover, Outcome};
pub use spec::{NodeKind, TierSpec};

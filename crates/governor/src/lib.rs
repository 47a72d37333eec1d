//! Governing of memory: the memory of queries, their pins and spill files, the market that limits
//! them, and the limits of tenants.
//!
//! Every query has its own memory pool over one ledger, and a state by which it is suspended and
//! resumed; the market decides how much each may hold, and which of them run.
//!
//! | module | concept |
//! |---|---|
//! | `memory` | the budget, and the working memory of each query |
//! | `pins` | bytes of pages that batches pin, and copies made in their place |
//! | `spill` | spill files in pages of the pool |
//! | `market` | the market that limits queries and decides which of them run |
//! | `query` | running queries: state, suspension, progress |
//! | `running` | registration of a query that begins |
//! | `limits`, `tenancy` | limits of a tenant, and its sessions and queries counted against them |

#![forbid(unsafe_code)]

pub mod error;
pub mod limits;
pub mod market;
pub mod memory;
pub mod pins;
pub mod query;
pub mod running;
pub mod spill;
pub mod tenancy;

pub use error::GovernorError;

//! Governing of memory: the memory of queries, their pins and spill files, the market that limits
//! them, and the limits of tenants.
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

pub mod error;
pub(crate) mod limits;
pub mod market;
pub mod memory;
pub mod pins;
pub mod query;
pub(crate) mod running;
pub mod spill;
pub(crate) mod tenancy;

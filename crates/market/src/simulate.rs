//! A simulator: the broker over a recorded trace, always with the same outcome.
//!
//! A [`Trace`] has tenants with SLAs, and their requests by time: look-ups that touch a few pages
//! at random, scans that touch many in a row, and sorts. [`run`] plays it under a [`Policy`]: each
//! tenant's pages go through an LRU cache of the size it was granted, its sorts run one after
//! another as fast as their memory lets them, and what the requests took is charged by the SLAs.
//!
//! The broker is the one that engines use, and it knows no more than it would there: miss ratios
//! from sampling, rates from counting, and the sort's analytic model. It does not see the future.
//!
//! What is left out: requests of different tenants do not wait for each other at the device, and
//! a cache is filled by misses alone.

mod cache;
mod generate;
mod lru;
mod policy;
mod queue;
mod random;
mod text;
mod trace;

pub use generate::{Shape, three_tenants};
pub use policy::{Policy, Sample, Score, SimulationConfig, TenantScore, run};
pub use text::TraceError;
pub use trace::{Event, Tenant, Trace, Work};

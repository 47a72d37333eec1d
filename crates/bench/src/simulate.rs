//! A simulator of the memory market: runs the broker over the requests of a trace, with a
//! deterministic result.
//!
//! A [`Trace`] has tenants with SLAs, and their requests by time: look-ups that touch a few pages
//! at random, scans that touch many consecutive pages, and sorts. [`run`] simulates it under a
//! [`Policy`]. The pages of each tenant go through an LRU cache of the granted size. Its sorts run
//! one after another, as fast as their memory allows. The SLAs charge the latency and the I/O of
//! the requests.
//!
//! The broker is the one that engines use, and it has the same inputs as there: miss ratios from
//! sampling, rates from counting, and the sort's analytic model. It does not see the future.
//!
//! Simplifications: requests of different tenants do not wait for each other at the device, and
//! only misses fill a cache.

mod cache;
mod generate;
mod lru;
mod policy;
mod queue;
mod random;
mod trace;

pub(crate) use generate::{Shape, three_tenants};
pub(crate) use policy::{Policy, Score, SimulationConfig, run};
pub(crate) use trace::{Event, Trace, Work};

#[cfg(test)]
mod tests;

//! Test support: fault injection, a conformance suite for stores, repeatable random tests.
//!
//! | module | contents |
//! |---|---|
//! | [`faulty`] | fault-injecting blocks, with planned or random faults |
//! | [`conformance`] | conformance suite of block implementations, instantiated by one line |
//! | [`disk`] | a file system in memory that records every operation |
//! | [`power`] | states of a device after a power loss, built from such a record |
//! | [`seed`] | random tests that print the command that repeats them |
//! | [`device`] | block devices and small file systems for tests |
//! | [`child`] | parts of tests in child processes |
//! | [`needs`] | requirements of tests on the kernel, and visible skips |

#![forbid(unsafe_code)]

pub mod child;
pub mod conformance;
pub mod device;
pub mod disk;
pub mod faulty;
pub mod needs;
pub mod power;
pub mod seed;

pub use disk::{Image, Operation, RecordedDisk, RecordedFile};
pub use faulty::{Fault, FaultyBlocks, Target, When};
pub use power::{Syncs, after_power_loss};
pub use seed::{Rng, soak_rounds, soak_time, with_seed};

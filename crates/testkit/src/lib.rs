//! Test support: faults on demand, suites that every store passes, seeds that re-run.
//!
//! | module | concept |
//! |---|---|
//! | [`faulty`] | blocks that fail as devices do, by plan or by chance |
//! | [`conformance`] | what every implementation of blocks keeps, one line to instantiate |
//! | [`disk`] | a file system in memory that records every operation |
//! | [`power`] | what a device may hold after a power loss, built of such a record |
//! | [`seed`] | random tests that print how to run them again |
//! | [`device`] | block devices and small file systems for tests |
//! | [`child`] | parts of tests in processes of their own |
//! | [`needs`] | what tests take of the kernel, and a loud word where it is not there |

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

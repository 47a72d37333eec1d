//! Test support: faults on demand, suites that every store passes, seeds that re-run.
//!
//! | module | concept |
//! |---|---|
//! | [`faulty`] | blocks that fail as devices do, by plan or by chance |
//! | [`conformance`] | what every implementation of blocks keeps, one line to instantiate |
//! | [`seed`] | random tests that print how to run them again |
//! | [`device`] | block devices and small file systems for tests |
//! | [`child`] | parts of tests in processes of their own |
//! | [`needs`] | what tests take of the kernel, and a loud word where it is not there |

#![forbid(unsafe_code)]

pub mod child;
pub mod conformance;
pub mod device;
pub mod faulty;
pub mod needs;
pub mod seed;

pub use faulty::{Fault, FaultyBlocks, Target, When};
pub use seed::{Rng, soak_rounds, soak_time, with_seed};

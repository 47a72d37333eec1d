//! Latches of eight bytes with versions, and where threads sleep for them.
//!
//! | module | what it has |
//! |---|---|
//! | `latch` | the word: shared and exclusive holders, and a version for readers who do without |
//! | `park` | places to sleep for any word that has a bit to say that threads do |
//! | `precedence` | how long new readers let a waiting writer go first |
//!
//! A [`Latch`] is short-lived mutual exclusion inside a data structure, where the locks of the
//! standard library are too large or cannot be read optimistically (Leis et al., "The ART of
//! Practical Synchronization", DaMoN 2016). Every interleaving of its word is explored by loom.

#![forbid(unsafe_code)]

mod latch;
mod park;
mod precedence;
mod sync;

pub use latch::{Latch, Version};
pub use park::{Look, ParkingLot};

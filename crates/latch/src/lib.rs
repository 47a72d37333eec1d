//! Latches of eight bytes with versions, and a parking lot for their threads.
//!
//! | module | contents |
//! |---|---|
//! | `latch` | the latch word: shared and exclusive holders, and a version for optimistic readers |
//! | `park` | the parking lot: threads sleep on any word that has a *parked* bit |
//! | `precedence` | precedence of waiting writers over new readers, and its limits |
//!
//! A [`Latch`] is a short-term lock inside a data structure, where the locks of the standard
//! library are too large or cannot be read optimistically (Leis et al., "The ART of Practical
//! Synchronization", DaMoN 2016). Its interleavings are explored by loom.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use terrace_latch::{Latch, ParkingLot};
//!
//! let (latch, lot, value) = (Latch::new(), ParkingLot::new(), AtomicU64::new(1));
//! // An optimistic reader writes nothing: it reads, and then compares the version.
//! let seen = latch.version().expect("no writer holds it");
//! let read = value.load(Ordering::Relaxed);
//! assert!(latch.is_still(seen));
//! // A writer excludes others, and leaves a new version.
//! latch.exclusive(&lot);
//! value.store(read + 1, Ordering::Relaxed);
//! latch.release_exclusive(&lot);
//! assert!(!latch.is_still(seen), "the reader would have to start again");
//! ```

#![forbid(unsafe_code)]

mod latch;
mod park;
mod precedence;
mod sync;

pub use latch::{Latch, Version};
pub use park::{Look, ParkingLot};

//! The small-object store: objects of some bytes each, found by id, with half a byte beside each.
//!
//! An [`ObjectStore`] makes objects and gives out their ids ([`ObjectId`]: a node and a number).
//! Objects are read and written whole or in part, resized, removed, locked, pinned and made
//! read-only by any thread; what one thread does to an object is one step to all others. The
//! interface is that of DXMem (Nothaas et al., "DXRAM's Local Memory Management", 2019, section 4),
//! the inside is not:
//!
//! ```text
//!   id  =  group (64 ids each)           | slot
//!             |                               |
//!   table:    v 32 bytes a group              |
//!   [ latch | run | present | marked ]        |
//!              |                              |
//!   slabs:     v                              v
//!   [ object 0 | object 1 | object 2 | ... | object 63 ]   a run of 64-byte granules
//! ```
//!
//! 64 consecutive ids are a *group*. Its objects stand in one run of memory without gaps; when all
//! are equally long, which new objects are sorted by, nothing else is needed to find one. Readers
//! copy first and ask the version of the group's latch then whether they read what was there; they
//! write nothing. Locks and pins cost nothing for objects that are not held.
//!
//! ```
//! use std::time::Duration;
//! use terrace_objects::{ObjectConfig, ObjectMemory, ObjectStore};
//!
//! # fn main() -> Result<(), terrace_objects::ObjectError> {
//! let memory = ObjectMemory::Dram { bytes: 64 << 20 };
//! let store = ObjectStore::new(ObjectConfig::new("example", memory))?;
//! let id = store.create_with(b"an object")?;
//! let mut bytes = [0; 16];
//! let len = store.get(id, &mut bytes)?;
//! assert_eq!(&bytes[..len], b"an object");
//!
//! let mut locked = store.write_lock(id, Duration::from_secs(1))?;
//! locked.replace(b"a longer object")?;
//! drop(locked);
//! assert_eq!(store.size(id)?, 15);
//! store.remove(id)?;
//! assert!(!store.exists(id));
//! # Ok(())
//! # }
//! ```
//!
//! # Rules that hold everywhere
//!
//! - An operation that is refused has changed nothing; one whose log failed under way may have, and
//!   says so ([`ObjectError::Log`]).
//! - What changes what a group holds does so under its latch, and says so to the log and to a dump
//!   that has yet to copy the group.
//! - Bytes of objects are touched through one module, which copies what others may be changing.
//! - Nobody sleeps with a latch. A latch is held for one copy of a group or of one long object.
//! - A run is given back under the latch of the group that had it. Who looks at it without the
//!   latch reads what the next owner puts there, and learns from the version that it is nonsense;
//!   the addresses stay mapped as long as the store.

#![deny(unsafe_op_in_unsafe_fn)]

mod account;
mod batch;
mod bitmap;
mod blocks;
mod bytes;
mod change;
mod config;
mod defrag;
mod draft;
mod dump;
mod edit;
mod error;
mod files;
mod group;
mod guard;
mod id;
mod ids;
mod keeper;
mod locks;
mod log;
mod memory;
#[cfg(feature = "parts")]
#[doc(hidden)]
pub mod parts;
mod record;
mod recover;
mod replay;
mod reserve;
mod slabs;
mod snapshot;
mod stats;
mod store;
mod sync;
mod table;
mod typed;

#[cfg(all(test, not(loom), not(miri)))]
mod device_tests;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom), not(miri)))]
mod memory_files;
#[cfg(all(test, not(loom), not(miri)))]
mod power_tests;

pub use batch::Batch;
pub use config::{Durability, LogConfig, ObjectConfig};
pub use defrag::Defragmented;
pub use dump::Dumped;
pub use error::ObjectError;
pub use guard::{Pin, ReadGuard, WriteGuard};
pub use id::{LOCAL_BITS, LOCAL_MAX, ObjectId};
pub use keeper::{Keeper, KeeperConfig};
pub use locks::LockMode;
pub use memory::ObjectMemory;
pub use recover::Recovered;
pub use stats::{Checked, ObjectStats};
pub use store::{OBJECT_BYTES_MAX, ObjectStore};
#[cfg(feature = "serde")]
pub use typed::Postcard;
pub use typed::{Codec, Id, InPlace, Look, Typed};

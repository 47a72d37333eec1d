//! The small-object store: objects of some bytes each, found by id, with half a byte of overhead
//! each.
//!
//! An [`ObjectStore`] creates objects and returns their ids ([`ObjectId`]: a node and a number).
//! Any thread can read and write objects whole or in part, resize, remove, lock and pin them and
//! make them read-only; every operation on an object is atomic for other threads. The interface is
//! that of DXMem (Nothaas et al., "DXRAM's Local Memory Management", 2019, section 4), the
//! implementation is not:
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
//! 64 consecutive ids are a *group*. Its objects lie in one run of memory without gaps. If all have
//! the same length, by which new objects are sorted into groups, the table alone locates an object.
//! Reads are optimistic: they copy first and then check the version of the group's latch; they
//! write nothing. Locks and pins cost nothing for objects that are not held.
//!
//! ```
//! use std::time::Duration;
//! use terrace_objects::{ObjectConfig, Backing, ObjectStore};
//!
//! # fn main() -> Result<(), terrace_objects::ObjectError> {
//! let memory = Backing::Dram { bytes: 64 << 20 };
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
//! # Parts
//!
//! `groups` (groups, their table and the memory of objects), `durable` (the journal, logs and
//! dumps), `locks`, `objects` (reads and changes), `ids` and `recover` (from files to objects) lie
//! above each other in this order, and [`ObjectStore`] above all of them: none uses a later one.
//!
//! # Rules that hold everywhere
//!
//! - An operation that is refused has changed nothing; one whose log failed meanwhile may have, and
//!   says so ([`ObjectError::Log`]).
//! - Every change of a group's contents is made under the group's latch, and is passed to the log
//!   and to a dump that has yet to copy the group.
//! - Bytes of objects are accessed through one module, which copies bytes that may change
//!   meanwhile.
//! - No thread sleeps with a latch. A latch is held for one copy of a group or of one long object.
//! - A run is freed under the latch of the group that had it. A reader without the latch may read
//!   bytes of the run's next owner, and then finds that the version has changed; the addresses stay
//!   mapped as long as the store.

#![deny(unsafe_op_in_unsafe_fn)]

mod account;
mod batch;
mod bytes;
mod config;
mod durable;
mod error;
mod groups;
mod guard;
mod id;
mod ids;
mod locks;
mod maintenance;
mod objects;
#[cfg(feature = "parts")]
#[doc(hidden)]
pub mod read_breakdown;
mod recover;
mod stats;
mod store;
mod sync;
mod threads;
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
pub use config::{Durability, LogConfig, OBJECT_BYTES_MAX, ObjectConfig};
pub use durable::dump::Dumped;
pub use error::ObjectError;
pub use guard::{Pin, ReadGuard, WriteGuard};
pub use id::{LOCAL_BITS, LOCAL_MAX, ObjectId};
pub use locks::record::LockMode;
pub use maintenance::{Maintenance, MaintenanceConfig};
pub use objects::Defragmented;
pub use recover::Recovered;
pub use stats::{Checked, ObjectStats};
pub use store::ObjectStore;
pub use terrace_region::Backing;
#[cfg(feature = "serde")]
pub use typed::Postcard;
pub use typed::{Codec, Id, InPlace, Look, Typed};

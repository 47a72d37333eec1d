//! The store: checksummed extents on a file, a block device or memory.
//!
//! A store that is opened by its path must be blank or have a [`Label`]; other data is refused,
//! unless the caller asks to overwrite it.
//!
//! A store allocates extents from a free map in memory and transfers their bytes in batches. It
//! writes no metadata of its own to the device: the owner of an extent keeps its [`Stored`] and
//! claims it when the store is reopened, so no space can leak. Every read is verified against the
//! checksum of its [`Stored`], which covers the position too: bit flips and torn, lost and
//! misdirected writes are all reported as [`StoreError::Corrupt`].
//!
//! A failed write or sync latches the store: the contents of the device are no longer known, so
//! later writes are refused with the first error, while reads continue (they are verified). Running
//! out of space is [`StoreError::Full`] and does not latch.
//!
//! ```
//! use terrace_store::{Read, Store, Write};
//! use terrace_sys::buffer::AlignedBuffer;
//!
//! # fn main() -> Result<(), terrace_store::StoreError> {
//! // In an unnamed file, which is gone when the store is dropped.
//! let store = Store::temporary(&std::env::temp_dir(), Some(64 << 20))?;
//! let extent = store.allocate(8192)?;
//! let mut data = AlignedBuffer::zeroed(8192);
//! data[..5].copy_from_slice(b"hello");
//! // The place and the checksum, which the caller keeps.
//! let stored = store.write_batch(&[Write { extent, data: &data }]).remove(0)?;
//!
//! data.fill(0);
//! store.read_batch(&mut [Read { stored, data: &mut data }]).remove(0)?;
//! assert_eq!(&data[..5], b"hello");
//! store.free(extent);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod blocks;
mod checksum;
mod counters;
mod emulated_blocks;
mod engine;
mod error;
mod extent;
mod file_blocks;
mod first_error;
mod free_map;
mod label;
mod memory_blocks;
mod open;
mod speed;
mod store;
mod turns;

pub use blocks::{Blocks, Buffer, Done, Io};
pub use checksum::checksum;
pub use counters::StoreStats;
pub use emulated_blocks::{Distance, EmulatedBlocks, LATENCY_NS_MAX, parse_latency};
pub use engine::EngineChoice;
pub use error::StoreError;
pub use extent::{EXTENT_ALIGN_BYTES, Extent, Read, Stored, Write};
pub use file_blocks::FileBlocks;
pub use free_map::{FreeMap, MapError};
pub use label::{LABEL_BYTES, Label, Lifetime};
pub use memory_blocks::MemoryBlocks;
pub use store::Store;

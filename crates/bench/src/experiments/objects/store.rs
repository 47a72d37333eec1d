//! Stores in DRAM, and their errors.

use terrace_objects::{Backing, ObjectConfig, ObjectError, ObjectStore};
use terrace_sys::size::{GIB, to_usize};

use crate::error::{BenchError, Result};

/// Bytes of address space of a store; only used addresses take memory.
pub(super) const ADDRESS_BYTES: u64 = 64 * GIB;

/// Wraps an error of the store as a [`BenchError::Engine`].
pub(super) fn refused(error: &ObjectError) -> BenchError {
    BenchError::Engine(error.to_string())
}

/// Creates an empty store in DRAM.
pub(super) fn store() -> Result<ObjectStore> {
    let memory = Backing::Dram { bytes: to_usize(ADDRESS_BYTES) };
    ObjectStore::new(ObjectConfig::new("bench", memory)).map_err(|error| refused(&error))
}

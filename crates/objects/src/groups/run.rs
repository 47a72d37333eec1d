//! Units of the memory of objects: granules, runs of granules, and slabs.

use terrace_sys::size::to_u64;

/// Unit of allocation in bytes. Short under loom, which explores every byte.
pub(crate) const GRANULE_BYTES: usize = if cfg!(loom) { 4 } else { 64 };
/// Unit in which memory is charged to the budget, in bytes.
pub(crate) const SLAB_BYTES: usize = if cfg!(any(miri, loom)) { 128 << 10 } else { 2 << 20 };
/// Number of granules in a slab.
pub(crate) const SLAB_GRANULES: usize = SLAB_BYTES / GRANULE_BYTES;
/// Number of bits in a group's run word for the first granule of the run.
pub(crate) const START_BITS: u32 = 36;

/// Range of consecutive granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First granule.
    pub start: u64,
    /// Number of granules.
    pub len: u64,
}

impl Run {
    /// Number of granules that hold `bytes`.
    pub(crate) fn granules(bytes: usize) -> u64 {
        to_u64(bytes.div_ceil(GRANULE_BYTES))
    }
}

/// Error: no free run of this number of granules exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom(pub u64);

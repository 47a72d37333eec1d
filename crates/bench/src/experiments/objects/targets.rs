//! Targets of the object store, which the report shows beside the measurements.

use serde::Serialize;

/// Bytes per object, rates and speed-up that the store should reach.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Targets {
    /// Maximum total bytes of an object of 32 bytes.
    pub(super) bytes_of_32: f64,
    /// Maximum overhead in bytes of an object of 16 to 128 bytes.
    pub(super) beside_mix: f64,
    /// Millions of operations per processor second: uniform and skewed, one by one and in batches.
    pub(super) single: [f64; 2],
    pub(super) batched: [f64; 2],
    /// Speed-up of two threads over one.
    pub(super) scaling: f64,
}

pub(super) const TARGETS: Targets = Targets {
    bytes_of_32: 36.5,
    beside_mix: 5.0,
    single: [15.0, 20.0],
    batched: [25.0, 45.0],
    scaling: 1.9,
};

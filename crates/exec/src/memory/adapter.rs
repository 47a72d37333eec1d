//! Adapter from a grant to DataFusion's `MemoryPool`.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};

use super::grant::Grant;

/// Memory pool of DataFusion that charges every reservation to a grant and refuses none: for parts
/// of DataFusion that hold little memory and cannot spill, such as its merge of sorted streams.
#[derive(Debug)]
pub struct CountedPool(Arc<dyn Grant>);

impl CountedPool {
    /// Creates a pool whose bytes are charged to `grant`.
    #[must_use]
    pub fn new(grant: Arc<dyn Grant>) -> Self {
        Self(grant)
    }
}

impl fmt::Display for CountedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} bytes)", self.name(), self.0.held_bytes())
    }
}

impl MemoryPool for CountedPool {
    fn name(&self) -> &str {
        "CountedPool"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.0.grow(additional as u64);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(shrink as u64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.0.held_bytes()).unwrap_or(usize::MAX)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Infinite
    }
}

//! A grant that never refuses; for measuring an operator that ignores its budget.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::grant::Grant;

/// Charges an operator's bytes to another grant, but refuses none, asks none back, and never
/// suspends.
#[derive(Debug)]
pub struct ObliviousGrant(Arc<dyn Grant>);

impl ObliviousGrant {
    /// Creates a grant that charges every requested byte to `grant`.
    #[must_use]
    pub fn new(grant: Arc<dyn Grant>) -> Self {
        Self(grant)
    }
}

impl Grant for ObliviousGrant {
    fn try_grow(&self, bytes: u64) -> bool {
        self.0.grow(bytes);
        true
    }

    fn grow(&self, bytes: u64) {
        self.0.grow(bytes);
    }

    fn shrink(&self, bytes: u64) {
        self.0.shrink(bytes);
    }

    fn hold_heap(&self, bytes: u64) {
        self.0.hold_heap(bytes);
    }

    fn release_heap(&self, bytes: u64) {
        self.0.release_heap(bytes);
    }

    fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }

    fn excess_bytes(&self) -> u64 {
        0
    }

    fn suspended(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    fn suspends(&self) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }

    fn count_spilled(&self, bytes: u64) {
        self.0.count_spilled(bytes);
    }
}

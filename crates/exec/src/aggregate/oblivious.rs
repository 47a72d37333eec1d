//! A grant that is always given.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;

use crate::Grant;

/// The grant of an operator that does not ask how much memory there is.
#[derive(Debug, Default)]
pub(super) struct Oblivious(AtomicU64);

impl Grant for Oblivious {
    fn try_grow(&self, bytes: u64) -> bool {
        self.grow(bytes);
        true
    }

    fn grow(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn shrink(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn held_bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn excess_bytes(&self) -> u64 {
        0
    }

    fn suspended(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    fn count_spilled(&self, _bytes: u64) {}
}

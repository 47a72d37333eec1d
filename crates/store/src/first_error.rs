//! Sticky first error of a store.

use std::sync::OnceLock;

use super::StoreError;

/// The error of the first failed write or sync; set once and never cleared.
#[derive(Debug, Default)]
pub(super) struct FirstError {
    first: OnceLock<String>,
}

impl FirstError {
    pub(super) fn set(&self, error: &StoreError) {
        if self.first.set(error.to_string()).is_ok() {
            tracing::error!(%error, "the store takes no more writes");
        }
    }

    pub(super) fn first(&self) -> Option<String> {
        self.first.get().cloned()
    }
}

//! The bytes of pages that batches keep pinned.
//!
//! A batch that points into pages keeps them in memory for as long as any operator holds it, and a
//! sort or the build side of a join holds its input to the end. Pages so held are lost to the pool:
//! it can neither evict nor use them. Up to a share of the budget that is what zero-copy costs;
//! above it, scans and readers of spilled runs hand on copies and let their pages go at once.
//!
//! The share is half of what the pool keeps for itself, so that the other half always serves to
//! read and to write: operators that hold all the rest of the budget and wait for a page would
//! otherwise wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_pool::Pinned;
use terrace_sys::size::to_u64;

/// The account of pinned bytes: one for all queries of an engine.
#[derive(Debug)]
pub struct PagePins {
    pinned_bytes: AtomicU64,
    limit_bytes: u64,
}

impl PagePins {
    /// An account that lets batches pin `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self { pinned_bytes: AtomicU64::new(0), limit_bytes }
    }

    /// Bytes of pages that batches hold now.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that batches may hold before they become copies.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Whether `bytes` more would be above the limit.
    pub(crate) fn would_exceed(&self, bytes: u64) -> bool {
        self.pinned_bytes().saturating_add(bytes) > self.limit_bytes
    }

    /// Counts a pin until it is dropped.
    pub(crate) fn count(self: &Arc<Self>, page: Pinned) -> CountedPin {
        let bytes = to_u64(page.len());
        self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
        CountedPin { page, bytes, pins: Arc::clone(self) }
    }
}

/// A pinned page that is counted for as long as something points into it.
#[derive(Debug)]
pub(crate) struct CountedPin {
    page: Pinned,
    bytes: u64,
    pins: Arc<PagePins>,
}

impl AsRef<[u8]> for CountedPin {
    fn as_ref(&self) -> &[u8] {
        &self.page
    }
}

impl Drop for CountedPin {
    fn drop(&mut self) {
        self.pins.pinned_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

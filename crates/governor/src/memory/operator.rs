//! Memory of one operator of a query, for reports and for the market.

use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of one operator of a query, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorMemory {
    /// DataFusion's name of the operator and its partition, such as `ExternalSorter[1]`.
    pub name: String,
    /// True if the operator can work with less by writing to the spill space.
    pub can_spill: bool,
    /// Bytes that it holds now.
    pub reserved_bytes: u64,
    /// Maximum of the bytes that it held at one time.
    pub peak_bytes: u64,
}

/// State of an operator, for the market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperatorState {
    pub name: String,
    pub held_bytes: u64,
    pub peak_bytes: u64,
    pub spilled_bytes: u64,
    /// True if it has grown since the market last looked.
    pub grows: bool,
}

/// Bytes that one paged operator keeps pinned.
#[derive(Debug, Default)]
pub(super) struct PinnedBytes {
    name: String,
    now: AtomicU64,
    peak: AtomicU64,
    spilled: AtomicU64,
    /// State that the market saw when it last looked.
    noted: AtomicU64,
}

impl PinnedBytes {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(super) fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }

    /// Returns the state for the market.
    pub(super) fn state(&self) -> OperatorState {
        let (held, peak, spilled) = (self.now(), self.peak(), self.spilled());
        let seen = peak.max(held.saturating_add(spilled));
        OperatorState {
            name: self.name.clone(),
            held_bytes: held,
            peak_bytes: peak,
            spilled_bytes: spilled,
            grows: self.noted.swap(seen, Ordering::Relaxed) < seen,
        }
    }

    pub(super) fn add(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_spilled(&self, bytes: u64) {
        self.spilled.fetch_add(bytes, Ordering::Relaxed);
    }
}

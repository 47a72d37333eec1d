//! Backlog of pages that the store does not have: their bytes, the writes in flight, and the
//! store's refusals.

use std::mem::Discriminant;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use terrace_store::StoreError;

use crate::sync::lock;

/// Interval in which a refusal of the same kind is not logged again: a full store refuses thousands
/// of pages a second.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// Errors with which the store refused dirty pages.
#[derive(Debug, Default)]
struct Refusals {
    /// The last refusal and its time; cleared by the next successful write.
    last: Option<(StoreError, Instant)>,
    /// The kind that was logged last, and its time.
    told: Option<(Discriminant<StoreError>, Instant)>,
}

/// Pages in memory that the store does not have yet.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Bytes of pages in memory that have no extent in the store yet.
    unbacked: AtomicU64,
    /// Number of pages that are being written to the store.
    writing: AtomicUsize,
    refusals: Mutex<Refusals>,
}

impl Backlog {
    /// Returns the bytes of pages that have no extent yet.
    pub(crate) fn unbacked(&self) -> u64 {
        self.unbacked.load(Ordering::Relaxed)
    }

    /// Adds the bytes of a page without an extent.
    pub(crate) fn add_unbacked(&self, bytes: usize) {
        self.unbacked.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Subtracts the bytes of a page that had no extent, and has one now or is freed.
    pub(crate) fn take_unbacked(&self, bytes: usize) {
        self.unbacked.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// True while pages are being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::SeqCst) > 0
    }

    /// Counts a page that is about to be written.
    pub(crate) fn begin_write(&self) {
        self.writing.fetch_add(1, Ordering::SeqCst);
    }

    /// Subtracts pages that were written, or are not written after all.
    pub(crate) fn end_writes(&self, pages: usize) {
        self.writing.fetch_sub(pages, Ordering::SeqCst);
    }

    /// Forgets the last refusal, since the store took a page.
    pub(crate) fn clear_refusal(&self) {
        lock(&self.refusals).last = None;
    }

    /// Records the store's error, for a caller that finds no frame because of it.
    pub(crate) fn note_refusal(&self, pool: &str, error: StoreError) {
        let (now, kind) = (Instant::now(), std::mem::discriminant(&error));
        let mut refusals = lock(&self.refusals);
        let told = refusals.told.is_some_and(|(k, at)| k == kind && now - at < TELL_AGAIN);
        if !told {
            refusals.told = Some((kind, now));
            tracing::warn!(pool, %error, "dirty pages stay in memory");
        }
        refusals.last = Some((error, now));
    }

    /// Returns the store's error if it refused a dirty page after `start`. An older error may be
    /// about space that has come free meanwhile.
    pub(crate) fn refused_since(&self, start: Instant) -> Option<StoreError> {
        let refusals = lock(&self.refusals);
        refusals.last.as_ref().filter(|(_, at)| *at >= start).map(|(error, _)| error.clone())
    }
}
